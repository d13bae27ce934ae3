//! A server with TLS, whose certificate is signed by a root created by the test.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use durable_queue::{ErrorKind, Notifier, Store, StoreError};
use durable_queue_postgres::PostgresStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Database;
use crate::alike::{JOB, count};
use crate::tls::{EncryptedPostgres, demanded};

/// The server with TLS enabled, and a schema on it.
struct Encrypted {
    // Dropped first: its session continues unencrypted.
    database: Database,
    server: EncryptedPostgres,
}

impl Encrypted {
    fn new() -> Option<Self> {
        let server = EncryptedPostgres::new()?;
        let database = Database::new()?;
        Some(Self { database, server })
    }

    fn address(&self) -> String {
        demanded(&self.database.address)
    }

    /// Opens a store that trusts only this root.
    fn open(&self, root: &str) -> Result<PostgresStore, StoreError> {
        let connector = connector(&self.server.folder().join(format!("{root}.pem")));
        let options = self.database.options().tls(connector);
        options.open(&self.address())
    }
}

fn connector(root: &Path) -> MakeRustlsConnect {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(root).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    MakeRustlsConnect::new(config)
}

#[test]
fn only_a_server_with_a_trusted_root_is_used_with_tls() {
    let Some(server) = Encrypted::new() else {
        return;
    };
    testkit::watchdog(testkit::LIMIT, || {
        let store = server.open("root").unwrap();
        store.enqueue("queue", &[JOB]).unwrap();
        assert_eq!(count(&store), 1);
        // The listening session as well.
        let (sender, times) = channel();
        let notifier = Notifier::new(move |due| _ = sender.send(due));
        let watch = store.watch("queue", notifier).unwrap();
        let other = server.open("root").unwrap();
        other.enqueue("queue", &[JOB]).unwrap();
        times.recv().unwrap();
        let encrypted = "SELECT count(*) FROM pg_stat_ssl WHERE ssl";
        assert!(
            server.database.get::<i64>(encrypted) >= 3,
            "two stores and a listener"
        );
        drop(watch);

        let other_root = server.open("other").unwrap_err();
        let no_tls = server
            .database
            .options()
            .open(&server.address())
            .unwrap_err();
        for (error, said) in [
            (other_root, "its certificate is not trusted"),
            (no_tls, "TLS"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Other, "{error:?}");
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(said), "{shown}");
            let password = server.database.address.split([':', '@']).nth(2).unwrap();
            for secret in [password, "127.0.0.1"] {
                assert!(!shown.contains(secret), "{shown}");
            }
        }
    });
}
