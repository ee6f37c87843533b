//! A certificate that vouches for itself.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::Error;
use crate::account::Account;
use crate::directory::{DataDirectory, write_private};
use crate::run::run;

/// Not an authority, as it would be without this: some clients refuse one that serves.
const CONFIG: &str = "\
[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = localhost
[extensions]
subjectAltName = IP:127.0.0.1, DNS:localhost
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
";
const DAYS: &str = "3650";
const LIMIT: Duration = Duration::from_mins(1);

/// Makes a certificate and its key, unless they are there; the certificate.
pub(crate) fn make(directory: &DataDirectory, account: Option<Account>) -> Result<PathBuf, Error> {
    let [certificate, key, new, config] =
        ["server.crt", "server.key", "server.crt.new", "openssl.cnf"]
            .map(|name| directory.path().join(name));
    if certificate.exists() {
        return Ok(certificate);
    }
    fs::write(&config, CONFIG).map_err(Error::at(&config))?;
    // Created before `openssl` writes it, so that other users cannot read it.
    write_private(&key, "", account)?;
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-noenc", "-days", DAYS, "-newkey", "ec"]);
    openssl.args(["-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    openssl.arg("-config").arg(&config).arg("-keyout").arg(&key).arg("-out").arg(&new);
    run("openssl", openssl, "", LIMIT)?;
    fs::rename(&new, &certificate).map_err(Error::at(&new))?;
    Ok(certificate)
}
