//! Certificates of roots that a test has made.

use std::env;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::address::address;

/// The program that makes certificates, if that server is wanted and it is there.
pub(crate) fn has_openssl(variable: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = env::split_paths(&path).any(|folder| folder.join("openssl").exists());
    let is_wanted = address(variable).is_some();
    if is_wanted && !is_there {
        testkit::left_out("tests with TLS", "there is no openssl");
    }
    is_wanted && is_there
}

/// `root` and `other`, which sign for themselves, and `server`, which `root` has signed: each as
/// `NAME.pem` and `NAME.key`. The server is that of this machine.
pub(crate) fn certificates(folder: &Path) {
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

/// The program `durable-queue`, for the queue "mails" of the store at an address, with a root of the folder.
#[cfg(feature = "tls")]
pub(crate) fn program(address: &str, folder: &Path, root: &str, command: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_durable-queue"));
    let program = program.env("DURABLE_QUEUE_STORE", address);
    let program = program.args(["--queue", "mails", "--ca"]);
    let output = program
        .arg(folder.join(root))
        .args(command)
        .output()
        .unwrap();
    let shown = format!("{output:?}");
    let password = address.split([':', '@']).nth(2).unwrap();
    for secret in [password, "127.0.0.1"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    output
}

/// It uses a server whose root it trusts, and no other.
#[cfg(feature = "tls")]
pub(crate) fn the_program_encrypts(address: &str, folder: &Path) {
    let said = |output: Output| {
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let pushed = program(address, folder, "root.pem", &["push", "job"]);
    assert_eq!(said(pushed), (Some(0), "pushed 1\n".to_owned()));
    let (status, text) = said(program(address, folder, "other.pem", &["stats"]));
    assert!(text.contains("its certificate is not trusted"), "{text}");
    assert_eq!(status, Some(1));
    for no_roots in ["none", "server.key"] {
        let (status, text) = said(program(address, folder, no_roots, &["stats"]));
        assert!(text.contains("no certificates of the form PEM"), "{text}");
        assert_eq!(status, Some(2));
    }
    let (status, text) = said(program(address, folder, "root.pem", &["stats"]));
    assert_eq!((status, &text[..6]), (Some(0), "1 jobs"));
}
