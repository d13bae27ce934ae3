//! Servers with TLS, with certificates of roots created by the test.

use std::cell::RefCell;
use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::address::POSTGRES;
use crate::address::REDIS;
use crate::address::address;
use crate::redis_server::Server;
use crate::support::Folder;

/// Returns whether that server is enabled and `openssl` is installed.
pub fn has_openssl(variable: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = env::split_paths(&path).any(|folder| folder.join("openssl").exists());
    let is_wanted = address(variable).is_some();
    if is_wanted && !is_there {
        testkit::left_out("tests with TLS", "there is no openssl");
    }
    is_wanted && is_there
}

/// Creates `root` and `other`, which are self-signed, and `server`, which `root` has signed, as `NAME.pem`
/// and `NAME.key`. The server's name is that of this machine.
pub fn certificates(folder: &Path) {
    certificate(folder, "root", &[]);
    certificate(folder, "other", &[]);
    let of_root = ["-CA", "root.pem", "-CAkey", "root.key", "-set_serial", "7"];
    let names = ["-addext", "subjectAltName=IP:127.0.0.1"];
    let is_no_root = ["-addext", "basicConstraints=critical,CA:FALSE"];
    certificate(
        folder,
        "server",
        &[&of_root[..], &names, &is_no_root].concat(),
    );
}

fn certificate(folder: &Path, name: &str, more: &[&str]) {
    let mut openssl = Command::new("openssl");
    openssl
        .current_dir(folder)
        .args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"])
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-subj", &format!("/CN={name}")])
        .args(["-out", &format!("{name}.pem")])
        .args(["-keyout", &format!("{name}.key")])
        .args(more);
    let made = openssl.stdin(Stdio::null()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
}

/// The test server of `PostgreSQL` with TLS enabled, which is disabled again at the end. Other tests neither
/// need nor notice it.
pub struct EncryptedPostgres {
    admin: RefCell<postgres::Client>,
    address: String,
    folder: Folder,
}

impl EncryptedPostgres {
    pub fn new() -> Option<Self> {
        if !has_openssl(POSTGRES) {
            return None;
        }
        let address = address(POSTGRES)?;
        let mut admin = postgres::Client::connect(&address, postgres::NoTls).unwrap();
        let query = "SELECT rolsuper FROM pg_roles WHERE rolname = current_user";
        if !admin.query_one(query, &[]).unwrap().get::<_, bool>(0) {
            testkit::left_out(
                "tests of PostgreSQL with TLS",
                "the user may not change settings",
            );
            return None;
        }
        let encrypted = Self {
            admin: RefCell::new(admin),
            address,
            folder: Folder::new(),
        };
        certificates(encrypted.folder());
        for name in ["server.pem", "server.key"] {
            // The server itself runs a program that writes next to its data, because only the server's user
            // may read the key.
            let text = fs::read_to_string(encrypted.folder.file(name)).unwrap();
            encrypted.sql(&format!(
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

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn sql(&self, text: &str) {
        self.admin.borrow_mut().batch_execute(text).unwrap();
    }

    fn set(&self, name: &str, value: Option<&str>) {
        let value = value.map_or("DEFAULT".to_owned(), |value| format!("'{value}'"));
        self.sql(&format!("ALTER SYSTEM SET {name} = {value}"));
    }

    /// Returns when new sessions have the setting.
    fn reload(&self, ssl: &str) {
        self.sql("SELECT pg_reload_conf()");
        let shown = || -> String {
            let session = postgres::Client::connect(&self.address, postgres::NoTls);
            session.unwrap().query_one("SHOW ssl", &[]).unwrap().get(0)
        };
        while shown() != ssl {}
    }
}

impl Drop for EncryptedPostgres {
    fn drop(&mut self) {
        for name in ["ssl", "ssl_cert_file", "ssl_key_file"] {
            self.set(name, None);
        }
        self.reload("off");
    }
}

/// Returns `address` with TLS required.
pub fn demanded(address: &str) -> String {
    let separator = if address.contains('?') { '&' } else { '?' };
    format!("{address}{separator}sslmode=require")
}

pub const REDIS_PASSWORD: &str = "hunter2";

/// Starts a Redis server that accepts only TLS over the network, and returns its address.
pub fn encrypted_redis() -> Option<(Server, String)> {
    if !has_openssl(REDIS) {
        return None;
    }
    // Freed at the end of the statement.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let port = free.unwrap().port().to_string();
    let options = [
        &["--bind", "127.0.0.1", "--tls-port", &port][..],
        &["--tls-cert-file", "server.pem"],
        &["--tls-key-file", "server.key"],
        &["--tls-ca-cert-file", "root.pem"],
        &["--tls-auth-clients", "no"],
    ];
    let server = Server::prepared(&options.concat(), certificates)?;
    server.set("requirepass", REDIS_PASSWORD);
    let address = format!("rediss://:{REDIS_PASSWORD}@127.0.0.1:{port}");
    Some((server, address))
}
