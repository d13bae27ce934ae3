//! Finds the sources of sqlxmq: the definitions of its tables are only in its package, and its
//! users apply them.

use std::env;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn main() {
    let cargo = env::var_os("CARGO").expect("cargo runs build scripts");
    let metadata = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .args([
            "--filter-platform",
            &env::var("TARGET").expect("cargo says it"),
        ])
        .output()
        .expect("cargo starts");
    let error = String::from_utf8_lossy(&metadata.stderr);
    assert!(metadata.status.success(), "cargo metadata: {error}");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("it is JSON");
    let packages = metadata["packages"].as_array().expect("it has packages");
    let manifest = packages
        .iter()
        .find(|package| package["name"] == "sqlxmq")
        .and_then(|package| package["manifest_path"].as_str())
        .expect("sqlxmq is a dependency");
    let tables = Path::new(manifest).with_file_name("migrations");
    println!("cargo::rustc-env=SQLXMQ_TABLES={}", tables.display());
    println!("cargo::rerun-if-changed=Cargo.lock");
    println!("cargo::rerun-if-changed=build.rs");
}
