//! `cargo xtask versions`: processes of the last release of durable-queue and of this tree share a
//! store, as during a rolling upgrade and after a rollback.
//!
//! The release is the newest tag `v*`. Its tree is taken from git's history, and gets the program of
//! this tree's `crates/durable-queue-tests/tests/crash`: the same source except for a file of
//! imports, built with each version of the crates. Nothing is downloaded. Before the first release,
//! and without its commit, nothing runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use crate::cmutants::write_if_changed;
use crate::flags;
use crate::parallel;
use crate::process;
use crate::stores;
use crate::test::WHOLE;
use crate::workspace::{Workspace, package};

const KILLS: u64 = 12;
const SEED: u64 = 1;
/// Ends only processes that hang in spite of the programs' own limits, which report the place.
const LIMIT: Duration = Duration::from_secs(600);
/// The sources of the program, which are copied to the older tree.
const PROGRAM: [&str; 3] = ["tests/crash", "src/address.rs", "src/databases.rs"];
const PACKAGE: &str = "crates/durable-queue-tests";
/// Each tree has its own.
const IMPORTS: &str = "tests/crash/version.rs";
const STORES: [&str; 3] = ["sqlite", "postgres", "redis"];

/// On each store: the phases of a rolling upgrade without kills, then kills of processes of both
/// versions.
pub(crate) fn run(workspace: &Workspace, flags: &flags::Versions) -> Result<()> {
    let only = flags.on.as_deref();
    let wanted = |store: &&&str| only.is_none_or(|only| only == **store);
    let stores: Vec<&str> = STORES.iter().filter(wanted).copied().collect();
    let known = STORES.join(", ");
    ensure!(!stores.is_empty(), "unknown store; the stores are {known}");
    let Some(commit) = commit(workspace, flags.old.as_deref())? else {
        println!(
            "versions: left out, because the local git history has no release; `--old HEAD` tries the programs"
        );
        return Ok(());
    };
    let old = build(workspace, &old_tree(workspace, &commit)?)?;
    let new = build(workspace, workspace)?;

    let kills = flags.kills.unwrap_or(KILLS).to_string();
    let seed = flags.seed.unwrap_or(SEED).to_string();
    let kills = ["--kills", &kills, "--seed", &seed];
    let run_all = |shell: &Shell| {
        let runs = stores.iter().map(|store| {
            let both = ["--on", store, "--old"];
            let phases = cmd!(shell, "{new} {both...} {old}").into();
            let kills = cmd!(shell, "{new} {both...} {old} {kills...}").into();
            (*store, [("phases", phases), ("kills", kills)])
        });
        // All stores at once, because the programs mostly wait.
        let both = |(): &(), (store, runs): (_, [_; 2])| {
            let mut runs = runs.into_iter();
            runs.try_for_each(|(name, command)| run_one(workspace, store, name, command))
        };
        parallel::map(runs.collect(), STORES.len(), |_| Ok(()), both).map(drop)
    };
    if stores == ["sqlite"] {
        run_all(&workspace.shell()?)?;
    } else {
        stores::with_servers(workspace, |shell, _| run_all(shell))?;
    }
    let (old, stores) = (commit.get(..12).unwrap_or(&commit), stores.join(", "));
    println!("versions: processes of {old} and of this tree have shared {stores}");
    Ok(())
}

fn run_one(workspace: &Workspace, store: &str, name: &str, mut command: Command) -> Result<()> {
    let log = format!("versions/{store}.{name}.log");
    let log = workspace.target.join(log);
    let ended = process::run_logged(&mut command, &log, Some(LIMIT))?;
    let time = ended.time.as_secs_f32();
    println!("{time:>6.1} s  {store}, {name}: {}", ended.output.trim());
    ensure!(ended.success(), "{store}, {name}: see {}", log.display());
    Ok(())
}

/// The full name of the commit, or else of the last release's, if the local history has it.
fn commit(workspace: &Workspace, named: Option<&str>) -> Result<Option<String>> {
    let shell = workspace.shell()?;
    let read = |command: xshell::Cmd<'_>| {
        // Without git there is no history.
        let found = command.quiet().ignore_status().ignore_stderr().read();
        found.ok().filter(|found| !found.is_empty())
    };
    let last = || {
        let tags = ["--tags", "--abbrev=0", "--match=v[0-9]*"];
        read(cmd!(shell, "git describe {tags...}"))
    };
    let Some(commit) = named.map(str::to_owned).or_else(last) else {
        return Ok(None);
    };
    let found = format!("{commit}^{{commit}}");
    let found = read(cmd!(shell, "git rev-parse --quiet --verify {found}"));
    ensure!(
        named.is_none() || found.is_some(),
        "git's history has no commit {commit}"
    );
    Ok(found)
}

/// The tree of that commit with this tree's program.
fn old_tree(workspace: &Workspace, commit: &str) -> Result<Workspace> {
    let folder = workspace.target.join("versions");
    let tree = folder.join(commit);
    if !tree.exists() {
        let shell = workspace.shell()?;
        let [archive, part] = ["tar", "part"].map(|it| folder.join(commit).with_extension(it));
        shell.remove_path(&part)?;
        shell.create_dir(&part)?;
        let archived = cmd!(
            shell,
            "git archive --format=tar --output={archive} {commit}"
        );
        archived.quiet().run()?;
        cmd!(shell, "tar -xf {archive} -C {part}").quiet().run()?;
        shell.remove_path(&archive)?;
        fs::rename(&part, &tree)?;
    }
    let old = Workspace {
        root: tree,
        target: workspace.target.clone(),
    };
    for file in workspace.files(PACKAGE)? {
        let part = file.strip_prefix(PACKAGE)?;
        let is_of_it = PROGRAM.iter().any(|of_it| part.starts_with(of_it));
        if is_of_it && part != Path::new(IMPORTS) {
            write_if_changed(&old.root.join(&file), workspace.read(&file)?.as_bytes())?;
        }
    }
    Ok(old)
}

/// Builds the program of a tree. Dependencies are built once for all trees, with the features of
/// the tests.
fn build(workspace: &Workspace, tree: &Workspace) -> Result<PathBuf> {
    let shell = tree.shell()?;
    let mut command: Command = cmd!(shell, "cargo test {WHOLE...} --test crash --no-run").into();
    command.env("CARGO_TARGET_DIR", &workspace.target);
    if tree.root != workspace.root {
        // Crates of two trees have the same name in the target directory unless their profiles
        // differ, so each build would replace the other's.
        for folder in tree.crates()? {
            let setting = format!("profile.dev.package.{}.codegen-units=15", package(&folder));
            command.args(["--config", &setting]);
        }
    }
    let binaries = process::build_tests(&mut command)?;
    let mut binaries = binaries.into_iter();
    let program = binaries.find(|it| it.package.starts_with("durable-queue"));
    Ok(program.context("cargo has not built the program")?.path)
}
