//! `cargo xtask api`: the public items of each published crate, compared with `docs/api/`.
//!
//! A change that adds, changes or removes a public item shows it in its diff, and one that does so
//! by mistake fails.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use xshell::cmd;

use crate::packages;
use crate::workspace::Workspace;

/// One file per crate. Relative to the root.
const LISTS: &str = "docs/api";
/// The format of rustdoc's JSON that `public-api` reads. It changes every few releases of the
/// compiler, so the two are updated together.
const FORMAT: u32 = 57;
/// Environment variable under which this program is [`rustdoc`].
const AS_RUSTDOC: &str = "XTASK_AS_RUSTDOC";

#[derive(Deserialize)]
struct Format {
    format_version: u32,
}

/// Compares the crates with their lists, or writes the lists.
pub(crate) fn run(workspace: &Workspace, update: bool) -> Result<()> {
    let lists = workspace.root.join(LISTS);
    let mut differ = Vec::new();
    let documented = document(workspace)?;
    for folder in packages::libraries(workspace)? {
        let library = folder.replace('-', "_");
        let json = documented.join(library).with_extension("json");
        let written: Format = serde_json::from_str(&fs::read_to_string(&json)?)?;
        let Format { format_version } = written;
        if format_version != FORMAT {
            let reason = format!(
                "this compiler writes format {format_version} of rustdoc's JSON, and {FORMAT} can be read"
            );
            ensure!(!update, reason);
            println!("THE PUBLIC INTERFACES ARE NOT COMPARED: {reason}");
            return Ok(());
        }
        let list = list(&json)?;
        let file = lists.join(&folder).with_extension("txt");
        if update {
            fs::create_dir_all(&lists)?;
            fs::write(&file, list)?;
        } else {
            let listed = fs::read_to_string(&file).unwrap_or_default();
            if !matches(&folder, &listed, &list) {
                differ.push(folder);
            }
        }
    }
    ensure!(
        differ.is_empty(),
        "the public interface of {} has changed: if that is meant, `cargo xtask api --update`",
        differ.join(", ")
    );
    println!("api: {}", if update { "written" } else { "as listed" });
    Ok(())
}

/// Runs rustdoc on all crates. Returns the folder with a file for each.
fn document(workspace: &Workspace) -> Result<PathBuf> {
    let shell = workspace.shell()?;
    // For rustdoc alone: build scripts look at `RUSTC_BOOTSTRAP`, so with it cargo would build all dependencies anew.
    let _rustdoc = shell.push_env("RUSTDOC", env::current_exe()?);
    let _as_rustdoc = shell.push_env(AS_RUSTDOC, "1");
    let flags = "-Z unstable-options --output-format json --cap-lints allow";
    let _flags = shell.push_env("RUSTDOCFLAGS", flags);
    let what = ["--workspace", "--all-features", "--no-deps", "--lib"];
    cmd!(shell, "cargo doc --quiet {what...}").run()?;
    Ok(workspace.target.join("doc"))
}

/// If this process was started as rustdoc, runs it. The format is unstable, so `FORMAT` checks it; the compiler itself is
/// stable.
pub(crate) fn rustdoc() -> Option<ExitCode> {
    env::var_os(AS_RUSTDOC)?;
    let mut command = Command::new("rustdoc");
    command
        .args(env::args_os().skip(1))
        .env("RUSTC_BOOTSTRAP", "1");
    let succeeded = command.status().is_ok_and(|status| status.success());
    Some(ExitCode::from(u8::from(!succeeded)))
}

/// Returns a line per public item, without derived and automatic implementations.
fn list(json: &Path) -> Result<String> {
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .with_context(|| json.display().to_string())?;
    let items: Vec<String> = api.items().map(ToString::to_string).collect();
    Ok(items.join("\n") + "\n")
}

/// Whether a crate equals its list. Prints the differences.
fn matches(folder: &str, listed: &str, now: &str) -> bool {
    let [before, after] = [listed, now].map(|it| it.lines().collect::<BTreeSet<_>>());
    for line in &before ^ &after {
        let sign = if before.contains(line) { '-' } else { '+' };
        println!("{folder}: {sign} {line}");
    }
    before == after
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn new_changed_and_removed_items_differ_and_order_does_not() {
        let listed = "pub fn one()\npub fn two()\n";
        assert!(matches("x", listed, "pub fn two()\npub fn one()\n"));
        for now in [
            "pub fn one()\n",
            "pub fn one()\npub fn two(u8)\n",
            "pub fn one()\npub fn two()\npub fn three()\n",
            "",
        ] {
            assert!(!matches("x", listed, now), "{now}");
        }
    }
}
