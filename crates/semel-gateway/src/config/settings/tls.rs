use std::path::PathBuf;

use super::kind::{HOST, PATH};
use super::{Row, Section, Setting};

settings! { CLIENTS in Tls;
    /// PEM file with the certificate chain for clients. With `key` it turns TLS on.
    CERTIFICATE: Option<PathBuf> = certificate(PATH);
    /// PEM file with the private key of the certificate.
    KEY: Option<PathBuf> = key(PATH);
}

settings! { UPSTREAM in UpstreamTls;
    /// PEM file with certificates to trust besides those of the system.
    CA: Option<PathBuf> = ca(PATH);
    /// The name that the upstream's certificate must have, if it is not the host of `upstream`.
    SERVER_NAME: Option<String> = server_name(HOST);
}
