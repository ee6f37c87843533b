//! nginx as a plain reverse proxy.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Kind, Subject};
use crate::http::running::{Running, log_in};

pub(super) fn start(
    workers: u8,
    program: &Path,
    upstream: SocketAddr,
    scratch: &Path,
) -> anyhow::Result<Subject> {
    let kind = Kind::Nginx(workers);
    let directory = scratch.join(kind.name());
    fs::create_dir_all(&directory)?;
    let address = free_address()?;
    let file = directory.join("nginx.conf");
    fs::write(&file, settings(workers, address, upstream, &directory))?;
    let mut command = Command::new(program);
    command.arg("-p").arg(&directory).arg("-c").arg(&file).stdin(Stdio::null());
    let mut running = Running::start("nginx", log_in(scratch, &kind.name()), &mut command)?;
    running.wait_for(|_| TcpStream::connect(address).ok())?;
    Ok(Subject { kind, address, admin: None, executes: upstream, running: Some(running) })
}

/// nginx needs a port number. No other process is expected to take this one in between.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// A plain reverse proxy as its manual has it, with the headers that the gateway sets too. On both sides
/// as many connections are kept as come, and bodies of a megabyte stay in memory, as in the gateway.
fn settings(workers: u8, listen: SocketAddr, upstream: SocketAddr, directory: &Path) -> String {
    let at = directory.display();
    format!(
        "daemon off;
worker_processes {workers};
pid {at}/nginx.pid;
error_log {at}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {at}/client; proxy_temp_path {at}/proxy;
  fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
  keepalive_requests 1000000000;
  client_body_buffer_size 2m;
  proxy_buffers 16 128k; proxy_max_temp_file_size 0;
  upstream api {{
    server {upstream};
    keepalive 1024;
    keepalive_requests 1000000000;
  }}
  server {{
    listen {listen};
    location / {{
      proxy_pass http://api;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-Host $host;
    }}
  }}
}}
"
    )
}
