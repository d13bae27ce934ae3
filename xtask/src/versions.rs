//! `cargo xtask versions`: processes of an older version of durable-queue and of this one share a
//! store, as during a rolling upgrade and after a rollback.
//!
//! The tree of the older version is taken from git's history, and gets the program of this tree's
//! `crates/durable-queue-tests/tests/crash`: the same source except for a file of imports, built
//! with each version of the crates. Nothing is downloaded. If the history lacks the commit, nothing
//! runs.

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

/// The older version. Its stores record the oldest version that may work on them
/// (`durable_queue::internals::Version`): version 8 of `PostgreSQL`'s tables, 6 of `SQLite`'s and 3
/// of Redis's keys.
///
/// It changes when a store's `OLDEST` is raised, to the commit that raises it.
const OLD: &str = "7558de2036abd0165cd60231eade98080aa95170";
const KILLS: u64 = 12;
const SEED: u64 = 1;
/// Ends only processes that hang in spite of the programs' own limits, which report the place.
const LIMIT: Duration = Duration::from_secs(600);
/// The sources of the program, which are copied to the older tree.
const PROGRAM: [&str; 3] = ["tests/crash", "src/address.rs", "src/databases.rs"];
const FROM: &str = "crates/durable-queue-tests";
const TO: &str = "crates/durable-queue";
/// The file that differs in the older tree, in which the stores were features of one crate.
const IMPORTS: (&str, &str) = (
    "tests/crash/version.rs",
    r#"#[path = "../servers/address.rs"]
mod address;
#[path = "../servers/databases.rs"]
pub(crate) mod databases;

pub(crate) use durable_queue::{PostgresStore, RedisStore, SqliteStore};
pub(crate) use {postgres, redis, rusqlite};

pub(crate) fn retry_after<T>(
    job: durable_queue::Claimed<T>,
    delay: std::time::Duration,
) -> Result<(), durable_queue::SettleError> {
    job.retry_after(delay).map(drop)
}
"#,
);
const STORES: [&str; 3] = ["sqlite", "postgres", "redis"];

/// On each store: the phases of a rolling upgrade without kills, then kills of processes of both
/// versions.
pub(crate) fn run(workspace: &Workspace, flags: &flags::Versions) -> Result<()> {
    let only = flags.on.as_deref();
    let wanted = |store: &&&str| only.is_none_or(|only| only == **store);
    let stores: Vec<&str> = STORES.iter().filter(wanted).copied().collect();
    let known = STORES.join(", ");
    ensure!(!stores.is_empty(), "unknown store; the stores are {known}");
    let named = flags.old.as_deref().unwrap_or(OLD);
    let Some(commit) = resolve(workspace, named)? else {
        ensure!(flags.old.is_none(), "git's history has no commit {named}");
        println!(
            "versions: left out, because the local git history (a shallow clone or an archive) has no commit {named}"
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

/// The commit's full name, if it is in the local history.
fn resolve(workspace: &Workspace, commit: &str) -> Result<Option<String>> {
    let shell = workspace.shell()?;
    let commit = format!("{commit}^{{commit}}");
    let found = cmd!(shell, "git rev-parse --quiet --verify {commit}");
    let found = found.quiet().ignore_status().ignore_stderr().output();
    // Without git there is no history.
    let found = found.map(|found| String::from_utf8_lossy(&found.stdout).trim().to_owned());
    Ok(found.ok().filter(|commit| !commit.is_empty()))
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
    let (imports, text) = IMPORTS;
    for file in workspace.files(FROM)? {
        let part = file.strip_prefix(FROM)?;
        if !PROGRAM.iter().any(|of_it| part.starts_with(of_it)) {
            continue;
        }
        let text = if part == Path::new(imports) {
            text.to_owned()
        } else {
            workspace.read(&file)?
        };
        let place = match part.strip_prefix("src") {
            Ok(shared) => Path::new("tests/servers").join(shared),
            Err(_) => part.to_owned(),
        };
        write_if_changed(&old.root.join(TO).join(place), text.as_bytes())?;
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
