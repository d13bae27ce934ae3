//! `cargo xtask crash`: many kills of processes on one durable queue. The tests have a few of them.

use anyhow::Result;
use xshell::cmd;

use crate::flags;
use crate::workspace::Workspace;

const KILLS: u64 = 200;
const SEED: u64 = 1;

/// Runs the test `crash` of durable-queue, which says what it checks and what came of it.
pub(crate) fn run(workspace: &Workspace, flags: &flags::Crash) -> Result<()> {
    let shell = workspace.shell()?;
    let kills = flags.kills.unwrap_or(KILLS).to_string();
    let seed = flags.seed.unwrap_or(SEED).to_string();
    let test = [
        "-p",
        "anthill-durable-queue",
        "--all-features",
        "--test",
        "crash",
    ];
    cmd!(
        shell,
        "cargo test --quiet {test...} -- --kills {kills} --seed {seed}"
    )
    .run()?;
    Ok(())
}
