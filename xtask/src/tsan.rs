//! `ThreadSanitizer` with a standard library that is instrumented too.
//!
//! Without that, each lock and condition variable of std is a false report. Rebuilding std needs
//! its source, in the version of the compiler; Debian packages such a pair, which is unpacked into
//! the target directory and never installed: it would fight with rustup. Its compiler needs the
//! LLVM of the same major version, and the sanitizer's runtime of the toolchain in use.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

use crate::sanitize::TRIPLE;
use crate::workspace::{MissingTool, Workspace, succeeds};

/// What `rustc-web` links to.
const LLVM: &str = "llvm-22";
const PACKAGES: [&str; 4] = [
    "rustc-web",
    "libstd-rust-web-dev",
    "libstd-rust-web-1.96",
    "rust-web-src",
];

/// Runs the tests of `packages`.
pub(crate) fn run(
    workspace: &Workspace,
    shell: &Shell,
    packages: &[&str],
    install: bool,
) -> Result<()> {
    let folder = workspace.target.join("tsan-toolchain");
    if install {
        prepare(shell, &folder)?;
    }
    let usr = folder.join("root/usr");
    let rustc = usr.join("bin/rustc");
    if !runtime(&usr).exists() || !succeeds("dpkg", &["-s", LLVM]) {
        let remedy = format!(
            "tsan needs the Debian packages {LLVM} (installed) and {} (unpacked): pass --install",
            PACKAGES.join(", ")
        );
        return Err(MissingTool(remedy).into());
    }
    cmd!(
        shell,
        "cargo test -Zbuild-std --all-features --tests --target {TRIPLE} {packages...}"
    )
    .env("RUSTC", rustc)
    .env("LD_LIBRARY_PATH", usr.join("lib/x86_64-linux-gnu"))
    .env("RUSTC_BOOTSTRAP", "1")
    .env("RUSTFLAGS", "-Zsanitizer=thread")
    .env("CARGO_TARGET_DIR", workspace.target.join("tsan"))
    .run()
    .context("ThreadSanitizer")
}

fn prepare(shell: &Shell, folder: &Path) -> Result<()> {
    cmd!(shell, "apt-get install -y --no-install-recommends {LLVM}").run()?;
    fs::create_dir_all(folder)?;
    let _folder = shell.push_dir(folder);
    cmd!(shell, "apt-get download {PACKAGES...}").run()?;
    for package in shell.read_dir(folder)? {
        if package
            .extension()
            .is_some_and(|extension| extension == "deb")
        {
            cmd!(shell, "dpkg -x {package} root").run()?;
        }
    }
    let sysroot = PathBuf::from(cmd!(shell, "rustc --print sysroot").read()?);
    let (from, to) = (runtime(&sysroot), runtime(&folder.join("root/usr")));
    if !to.exists() {
        symlink(from, &to).with_context(|| to.display().to_string())?;
    }
    Ok(())
}

/// Where a toolchain keeps the sanitizer's runtime.
fn runtime(toolchain: &Path) -> PathBuf {
    let folder = toolchain.join("lib/rustlib").join(TRIPLE).join("lib");
    folder.join("librustc-stable_rt.tsan.a")
}
