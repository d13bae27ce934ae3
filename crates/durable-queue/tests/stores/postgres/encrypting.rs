//! A server that speaks TLS, with a certificate of a root that the test has made.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::{env, process};

use durable_queue::{ErrorKind, Notifier, PostgresStore, Store, StoreError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Database;
use crate::address::POSTGRES;
use crate::alike::{JOB, count};
use crate::tls::{certificates, has_openssl};

/// The server with TLS switched on, and off again at the end: no other test asks for it, and none is
/// troubled by it.
struct Encrypted {
    database: Database,
    folder: PathBuf,
}

impl Encrypted {
    fn new() -> Option<Self> {
        let database = Database::new()?;
        if !has_openssl(POSTGRES) {
            return None;
        }
        if !database.get::<bool>("SELECT rolsuper FROM pg_roles WHERE rolname = current_user") {
            testkit::left_out(
                "tests of PostgreSQL with TLS",
                "the user may not change settings",
            );
            return None;
        }
        let folder = env::temp_dir().join(format!("durable-postgres-{}", process::id()));
        fs::remove_dir_all(&folder).ok();
        fs::create_dir(&folder).unwrap();
        certificates(&folder);
        let encrypted = Self { database, folder };
        for name in ["server.pem", "server.key"] {
            // By a program of the server's own, beside its data: the key is to be its user's alone.
            let text = fs::read_to_string(encrypted.folder.join(name)).unwrap();
            encrypted.database.sql(&format!(
                "COPY (SELECT unnest(string_to_array('{}', E'\\n')))
                TO PROGRAM 'umask 077; cat > durable-{name}'",
                text.trim_end()
            ));
        }
        encrypted.set("ssl_cert_file", Some("durable-server.pem"));
        encrypted.set("ssl_key_file", Some("durable-server.key"));
        encrypted.set("ssl", Some("on"));
        encrypted.reload("on");
        Some(encrypted)
    }

    fn set(&self, name: &str, value: Option<&str>) {
        let value = value.map_or("DEFAULT".to_owned(), |value| format!("'{value}'"));
        self.database
            .sql(&format!("ALTER SYSTEM SET {name} = {value}"));
    }

    /// Returns when new sessions have that setting.
    fn reload(&self, ssl: &str) {
        self.database.sql("SELECT pg_reload_conf()");
        let shown = || -> String {
            let row = self.database.session().query_one("SHOW ssl", &[]);
            row.unwrap().get(0)
        };
        while shown() != ssl {}
    }

    fn address(&self) -> String {
        let separator = if self.database.address.contains('?') {
            '&'
        } else {
            '?'
        };
        format!("{}{separator}sslmode=require", self.database.address)
    }

    /// By a client that trusts this root alone.
    fn open(&self, root: &str) -> Result<PostgresStore, StoreError> {
        let connector = connector(&self.folder.join(format!("{root}.pem")));
        let options = self.database.options().tls(connector);
        options.open(&self.address())
    }
}

impl Drop for Encrypted {
    fn drop(&mut self) {
        for name in ["ssl", "ssl_cert_file", "ssl_key_file"] {
            self.set(name, None);
        }
        self.reload("off");
        fs::remove_dir_all(&self.folder).ok();
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
fn a_server_whose_root_the_client_trusts_is_used_with_tls_and_no_other() {
    let Some(server) = Encrypted::new() else {
        return;
    };
    testkit::watchdog(testkit::LIMIT, || {
        let store = server.open("root").unwrap();
        store.enqueue("queue", &[JOB]).unwrap();
        assert_eq!(count(&store), 1);
        // The session that listens too.
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
        // The server is the same for all tests, so this is none of its own.
        #[cfg(feature = "tls")]
        {
            let own = crate::databases::Postgres::new().unwrap();
            let address = format!("{}&sslmode=require", own.address);
            crate::tls::the_program_encrypts(&address, &server.folder);
        }
    });
}
