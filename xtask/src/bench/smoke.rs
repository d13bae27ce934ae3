//! Runs everything once, to see that it works: the figures mean nothing.

use anyhow::{Result, ensure};
use indicatif::ProgressBar;
use xshell::Shell;

use super::plan::{Choice, Plan};
use super::program::Program;
use super::{COMPARE, crates, rounds, shell, sites, stores};
use crate::workspace::Workspace;

/// Each quick case once on each of its quick pools, each bench of the crates once, and a few call sites of each
/// kind. All unoptimized, because that builds sooner.
pub(crate) fn smoke(workspace: &Workspace) -> Result<()> {
    let shell = shell(workspace)?;
    compare_once(workspace, &shell)?;
    crates::smoke(&shell)?;
    sites::smoke(workspace)
}

/// The same for our durable stores, on the servers that are installed.
pub(crate) fn smoke_stores(workspace: &Workspace) -> Result<()> {
    stores::smoke(workspace, &shell(workspace)?)
}

fn compare_once(workspace: &Workspace, shell: &Shell) -> Result<()> {
    let mut program = Program::build(workspace, shell, &COMPARE, "dev")?;
    let choice = Choice {
        quick: true,
        rounds: Some(1),
        ..Choice::default()
    };
    let plan = Plan::new(&program.list()?, &choice);
    let runs = rounds::run(&plan, &mut program, &ProgressBar::hidden());
    let failures = runs.iter().flatten().filter(|runs| runs.failure.is_some());
    let failures = failures.count();
    ensure!(
        failures == 0,
        "{failures} of {} runs of the comparison failed",
        plan.runs()
    );
    println!("the comparison ran {} times", plan.runs());
    Ok(())
}
