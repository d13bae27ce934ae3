//! Connections to servers, encrypted if the address requires it, with the root certificates of a file or of
//! the system.
//!
//! An address that only prefers TLS is not encrypted: the server may offer a certificate without a trusted
//! root.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::failure::Failure;

/// Trusted root certificates.
#[derive(Args)]
pub(crate) struct Roots {
    /// PEM file with root certificates to trust for addresses that require TLS. Default: the system's.
    #[arg(long, value_name = "PATH", global = true)]
    ca: Option<PathBuf>,
}

#[cfg(feature = "postgres")]
mod postgres {
    use std::io;
    use std::str::FromStr as _;
    use std::sync::Arc;

    use durable_queue_postgres::PostgresStore;
    use durable_queue_postgres::postgres::Config;
    use durable_queue_postgres::postgres::config::SslMode;
    use rustls::{ClientConfig, RootCertStore, crypto::ring};
    use tokio_postgres_rustls::MakeRustlsConnect;

    use super::{Roots, certificates, unreadable};
    use crate::failure::Failure;

    impl Roots {
        pub(crate) fn open_postgres(&self, address: &str) -> Result<PostgresStore, Failure> {
            // An invalid address is rejected by the store.
            let demands_tls = |config: Config| config.get_ssl_mode() == SslMode::Require;
            if !Config::from_str(address).is_ok_and(demands_tls) {
                return Ok(PostgresStore::open(address)?);
            }
            let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| Failure::Io(io::Error::other(error)))?
                .with_root_certificates(self.trusted()?)
                .with_no_client_auth();
            let options = PostgresStore::options().tls(MakeRustlsConnect::new(config));
            Ok(options.open(address)?)
        }

        fn trusted(&self) -> Result<RootCertStore, Failure> {
            let mut roots = RootCertStore::empty();
            let Some(path) = &self.ca else {
                // Invalid certificates of the system are ignored.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                return Ok(roots);
            };
            for certificate in certificates(path)?.1 {
                roots.add(certificate).map_err(|_| unreadable(path))?;
            }
            Ok(roots)
        }
    }
}

#[cfg(feature = "redis")]
mod redis {
    use durable_queue_redis::RedisStore;
    use durable_queue_redis::redis::{
        Client, ConnectionAddr, IntoConnectionInfo as _, TlsCertificates,
    };

    use super::{Roots, certificates, unreadable};
    use crate::failure::Failure;

    impl Roots {
        pub(crate) fn open_redis(&self, address: &str) -> Result<RedisStore, Failure> {
            let found = address.into_connection_info();
            let found = found.ok().filter(|info| {
                matches!(info.addr(), ConnectionAddr::TcpTls { .. }) && self.ca.is_some()
            });
            // An invalid address is rejected by the store. The client uses the system's roots by itself.
            let (Some(info), Some(path)) = (found, &self.ca) else {
                return Ok(RedisStore::open(address)?);
            };
            let certificates = TlsCertificates {
                client_tls: None,
                root_cert: Some(certificates(path)?.0),
            };
            let client =
                Client::build_with_tls(info, certificates).map_err(|_| unreadable(path))?;
            Ok(RedisStore::options().open_client(&client)?)
        }
    }
}

/// Returns the certificates of a file, as bytes and parsed. At least one.
fn certificates(path: &Path) -> Result<(Vec<u8>, Vec<CertificateDer<'static>>), Failure> {
    let text = fs::read(path).map_err(|_| unreadable(path))?;
    let found = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let found = found.ok().filter(|found| !found.is_empty());
    let found = found.ok_or_else(|| unreadable(path))?;
    Ok((text, found))
}

fn unreadable(path: &Path) -> Failure {
    let path = path.display();
    Failure::Usage(format!("{path}: contains no PEM certificates"))
}
