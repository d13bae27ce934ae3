//! `cargo xtask bench`: how the pool compares with what its users would take instead.
//!
//! The program `compare` of `benches/compare` knows the cases and the pools and runs one case on
//! one pool; `stores` and `stores-peers` do so for durable queues. Here is decided what runs when, what
//! the figures say, and how they are shown.
//!
//! Not for: measuring. Nothing here lies within a measured section.
//!
//! # What always holds
//! 1. Each run has a process of its own, and nothing else that is started here runs beside it; but pools
//!    that are to do nothing for a while may do it at the same time.
//! 2. A difference that lies within the noise is called so in every format.
//! 3. A pool that fails does not end the comparison: its row says so, and the exit code.

mod crates;
#[cfg(test)]
mod example;
mod html;
mod json;
mod origin;
mod plan;
mod program;
mod report;
mod rounds;
mod sites;
mod slopes;
mod smoke;
mod statistics;
mod stores;
mod summary;
mod tables;
mod text;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use xshell::{Shell, cmd};

use crate::flags;
use crate::workspace::Workspace;
use origin::Origin;
use plan::{Choice, Plan};
use program::{Package, Program};
use report::{Group, Report};

pub(crate) use smoke::{smoke, smoke_stores};

/// Both the comparison and the benches of the crates live in this workspace.
const MANIFEST: &str = "benches/Cargo.toml";
/// It is built there, below the target directory.
const FOLDER: &str = "benches";
/// A run of it takes at most some seconds.
const COMPARE: Package = Package {
    name: "compare",
    manifest: MANIFEST,
    folder: FOLDER,
    limit: Duration::from_secs(40),
};

/// Runs what is asked for, and writes it wherever it is wanted.
pub(crate) fn run(workspace: &Workspace, flags: &flags::Bench) -> Result<()> {
    ensure!(
        !(flags.crates && flags.no_crates),
        "--crates and --no-crates leave nothing to run"
    );
    ensure!(
        !(flags.stores && flags.crates),
        "--stores and --crates are two comparisons"
    );
    ensure!(
        !(flags.slopes && (flags.stores || flags.crates || flags.sites)),
        "--slopes is a table by itself"
    );
    ensure!(flags.rounds != Some(0), "no rounds leave nothing to run");
    if flags.sites {
        ensure!(
            !flags.crates && !flags.stores,
            "--sites is a comparison by itself"
        );
        return sites::run(workspace, flags);
    }
    let shell = shell(workspace)?;
    if flags.slopes {
        return slopes::run(workspace, &shell, flags);
    }
    let begin = Instant::now();
    let mut report = Report {
        origin: Origin::here(&shell)?,
        rounds: 0,
        groups: Vec::new(),
        crates: Vec::new(),
    };
    if flags.stores {
        (report.rounds, report.groups) = stores::compare(workspace, &shell, flags)?;
    } else if !flags.crates {
        (report.rounds, report.groups) = compare(workspace, &shell, flags)?;
    }
    let mut crates_failure = None;
    if !flags.no_crates && !flags.stores {
        // What the comparison has shown in its hour does not get lost if these benches hang.
        written(flags, &report)?;
        match crates::run(&shell, flags.quick, &flags.only) {
            Ok(shown) => {
                report.crates = shown.figures;
                report.groups.extend(shown.tails);
            }
            Err(error) => crates_failure = Some(format!("{error:#}")),
        }
    }
    report.origin.ended();
    let nothing = report.groups.is_empty() && report.crates.is_empty();
    ensure!(!nothing || crates_failure.is_some(), "no case has run");

    let text = text::terminal(&report);
    println!("\n{text}");
    let kept = workspace.target.join("bench-report.txt");
    write(&kept, &text)?;
    for path in written(flags, &report)? {
        println!("bench: written to {}", path.display());
    }
    println!(
        "bench: {} cases, {} figures of crates, {:.0} s, kept in {}",
        report
            .groups
            .iter()
            .map(|group| group.rows.len())
            .sum::<usize>(),
        report.crates.len(),
        begin.elapsed().as_secs_f32(),
        kept.display()
    );
    let mut failures: Vec<String> = report
        .failures()
        .map(|(row, outcome, _)| format!("{} {}", row.case, outcome.pool))
        .collect();
    failures.extend(crates_failure);
    if !failures.is_empty() {
        bail!("{} failed: {}", failures.len(), failures.join("; "));
    }
    Ok(())
}

/// Checks format and lints of the benches.
pub(crate) fn lint(workspace: &Workspace) -> Result<()> {
    let shell = shell(workspace)?;
    cmd!(
        shell,
        "cargo fmt --manifest-path {MANIFEST} --package anthill-benches --package compare
         --package measure --package stores --check"
    )
    .run()?;
    cmd!(
        shell,
        "cargo clippy --manifest-path {MANIFEST} --workspace --all-targets -- -D warnings"
    )
    .run()?;
    Ok(())
}

/// The number of rounds, and what they showed.
fn compare(
    workspace: &Workspace,
    shell: &Shell,
    flags: &flags::Bench,
) -> Result<(usize, Vec<Group>)> {
    let mut program = Program::build(workspace, shell, &COMPARE, "release")?;
    let choice = Choice {
        quick: flags.quick,
        alone: flags.alone,
        only: flags.only.clone(),
        peers: flags.peer.clone(),
        rounds: flags.rounds,
    };
    let plan = Plan::new(&program.list()?, &choice);
    let runs = rounds::run(&plan, &mut program, &bar(plan.runs()));
    Ok((plan.rounds, report::groups(&plan, &runs)))
}

/// It shows itself only on a terminal.
fn bar(runs: usize) -> ProgressBar {
    let bar = ProgressBar::new(runs as u64);
    let template = "{bar:30} {pos}/{len}, {eta} left  {wide_msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Writes the report wherever the flags say, and names the places.
fn written(flags: &flags::Bench, report: &Report) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    if let Some(path) = &flags.json {
        write(path, &json::json(report)?)?;
        paths.push(path.clone());
    }
    if let Some(path) = &flags.markdown {
        write(path, &text::markdown(report))?;
        paths.push(path.clone());
    }
    if let Some(folder) = &flags.html {
        let path = folder.join("index.html");
        write(&path, &html::page(report)?)?;
        paths.push(path);
    }
    Ok(paths)
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::write(path, text).with_context(|| path.display().to_string())
}

fn target(workspace: &Workspace) -> PathBuf {
    workspace.target.join(FOLDER)
}

fn shell(workspace: &Workspace) -> Result<Shell> {
    ensure!(
        workspace.root.join(MANIFEST).exists(),
        "{MANIFEST} is missing"
    );
    let shell = workspace.shell()?;
    shell.set_var("CARGO_TARGET_DIR", target(workspace));
    Ok(shell)
}
