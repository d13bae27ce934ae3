//! `ThreadSanitizer` with a standard library that is instrumented too.
//!
//! Without that, each lock and condition variable of std is a false report. Rebuilding std needs
//! its source, in the version of the compiler. Debian packages such a pair, which is unpacked into
//! the target directory together with the libraries it runs on, down to its own C library and
//! loader: nothing is installed, the release of this machine does not matter, and no rights are
//! needed. Only the sanitizer's runtime is that of the toolchain in use, whose LLVM has the same
//! major version.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

use crate::test::{self, TRIPLE};
use crate::workspace::{MissingTool, Workspace};

/// The release of Debian that has the compiler: 1.96, with LLVM 22.
const SUITE: &str = "trixie";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// The compiler, the source of its library, and what the compiler runs on.
const PACKAGES: [&str; 19] = [
    "rustc-web",
    "libstd-rust-web-dev",
    "libstd-rust-web-1.96",
    "rust-web-src",
    "libllvm22",
    "libc6",
    "libgcc-s1",
    "libstdc++6",
    "libbsd0",
    "libedit2",
    "libffi8",
    "libicu76",
    "liblzma5",
    "libmd0",
    "libtinfo6",
    "libxml2",
    "libz3-4",
    "libzstd1",
    "zlib1g",
];
/// What cannot run under the sanitizer: it has a thread of its own, which one test counts; and it
/// puts signals off while their thread is in a system call, in which the tests of signals block.
const SKIPPED: [&str; 2] = [
    "no_thread_runs_before_the_first_task_and_one_does_after_it",
    "signals::",
];

/// Runs the tests of `packages`.
pub(crate) fn run(
    workspace: &Workspace,
    shell: &Shell,
    packages: &[&str],
    install: bool,
) -> Result<()> {
    let folder = workspace.target.join("tsan-toolchain");
    let rustc = folder.join("rustc");
    if install && !rustc.exists() {
        prepare(shell, &folder)?;
    }
    if !rustc.exists() {
        let remedy = "tsan needs a compiler and the source of its library from Debian \
                      (apt-get, 150 MB, unpacked 950): pass --install";
        return Err(MissingTool(remedy.to_owned()).into());
    }
    let _compiler = shell.push_env("RUSTC", rustc);
    let _stable = shell.push_env("RUSTC_BOOTSTRAP", "1");
    let _flags = shell.push_env("RUSTFLAGS", "-Zsanitizer=thread");
    // Tests ask for memory that no machine has, to see it refused. A program that exits at an error
    // joins no threads, which is no race. Forked children start threads, as their tests do.
    let options = "allocator_may_return_null=1:report_thread_leaks=0:die_after_fork=0";
    let _options = shell.push_env("TSAN_OPTIONS", options);
    let _target = shell.push_env("CARGO_TARGET_DIR", workspace.target.join("tsan"));
    let harness = SKIPPED.map(|name| ["--skip", name]).concat();
    test::sanitized(shell, packages, &["-Zbuild-std"], &harness).context("ThreadSanitizer")
}

/// Downloads and unpacks the packages, and writes the compiler's starter last.
fn prepare(shell: &Shell, folder: &Path) -> Result<()> {
    for part in ["lists/partial", "archives/partial", "packages"] {
        fs::create_dir_all(folder.join(part))?;
    }
    let apt = &private_apt(shell, folder)?;
    cmd!(shell, "apt-get {apt...} update").run()?;
    {
        let _folder = shell.push_dir(folder.join("packages"));
        cmd!(shell, "apt-get {apt...} download {PACKAGES...}").run()?;
    }
    let root = folder.join("root");
    for package in shell.read_dir(folder.join("packages"))? {
        cmd!(shell, "dpkg -x {package} {root}").run()?;
    }
    let usr = root.join("usr");
    let sysroot = PathBuf::from(cmd!(shell, "rustc --print sysroot").read()?);
    let (from, to) = (runtime(&sysroot), runtime(&usr));
    if !to.exists() {
        symlink(from, &to).with_context(|| to.display().to_string())?;
    }
    let starter = folder.join("rustc.new");
    fs::write(&starter, STARTER)?;
    fs::set_permissions(&starter, fs::Permissions::from_mode(0o755))?;
    fs::rename(&starter, folder.join("rustc")).context("the starter")
}

/// Options that give apt-get lists of its own, of [`SUITE`] alone: the machine's are as they were.
fn private_apt(shell: &Shell, folder: &Path) -> Result<Vec<String>> {
    let format = "$(REPO_URI)";
    let sites = cmd!(
        shell,
        "apt-get indextargets --format {format} 'Label: Debian' 'Component: main'"
    )
    .read()
    .unwrap_or_default();
    let Some(site) = sites.lines().next() else {
        return Err(MissingTool("tsan needs Debian's apt-get, with a mirror".to_owned()).into());
    };
    let source = folder.join("sources.list");
    fs::write(
        &source,
        format!("deb [signed-by={KEYRING}] {site} {SUITE} main\n"),
    )?;
    let folder = folder.display();
    let options = [
        format!("Dir::Etc::sourcelist={folder}/sources.list"),
        "Dir::Etc::sourceparts=/dev/null".to_owned(),
        format!("Dir::State::lists={folder}/lists"),
        format!("Dir::Cache::archives={folder}/archives"),
        "Dir::Cache::pkgcache=".to_owned(),
        "Dir::Cache::srcpkgcache=".to_owned(),
    ];
    let options = options.into_iter();
    Ok(options.flat_map(|it| ["-o".to_owned(), it]).collect())
}

/// A compiler that runs on its own C library, whatever the machine has, and wherever its folder lies.
const STARTER: &str = r#"#!/bin/sh
usr=$(dirname "$(readlink -f "$0")")/root/usr
libraries=$usr/lib/x86_64-linux-gnu
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" \
    "$usr/bin/rustc" --sysroot "$usr" "$@"
"#;

/// Where a toolchain keeps the sanitizer's runtime.
fn runtime(toolchain: &Path) -> PathBuf {
    let folder = toolchain.join("lib/rustlib").join(TRIPLE).join("lib");
    folder.join("librustc-stable_rt.tsan.a")
}
