//! `cargo xtask crash`: kills many processes of a durable queue, or disturbs their connections, or
//! kills the servers. The ordinary tests do a few of each.

use anyhow::Result;
use xshell::{Shell, cmd};

use crate::flags;
use crate::stores;
use crate::workspace::Workspace;

const KILLS: u64 = 200;
const SEED: u64 = 1;

/// The tests of each store.
const EACH: [&str; 3] = ["--workspace", "--all-features", "--test=stores"];
/// The tests that run on all stores.
const ALL: [&str; 3] = ["-p", "durable-queue-tests", "--test=crash"];
/// A test of each store on a server.
const PROXY: &str = "processes_behind_a_disturbing_proxy";

/// Runs in addition, and alone, because it kills the server.
const RESTARTS: &str = "a_restarted_server_has_lost";

/// Runs tests of durable-queue, which print their checks and results.
pub(crate) fn run(workspace: &Workspace, flags: &flags::Crash) -> Result<()> {
    let seed = flags.seed.unwrap_or(SEED).to_string();
    if let Some(disturbances) = flags.proxy {
        return stores::with_servers(workspace, |shell, _| {
            shell.set_var("DURABLE_DISTURBANCES", disturbances.to_string());
            shell.set_var("ANTHILL_SEED", &seed);
            let test = ["--nocapture", PROXY];
            Ok(cmd!(shell, "cargo test --quiet {EACH...} -- {test...}").run()?)
        });
    }
    if let Some(restarts) = flags.restarts {
        return stores::with_servers(workspace, |shell, _| {
            shell.set_var("DURABLE_CRASHES", restarts.to_string());
            shell.set_var("ANTHILL_SEED", &seed);
            let restart = stores::restart_of_postgres(workspace, shell)?;
            // The test of PostgreSQL is otherwise left out, because it kills the server of all
            // tests.
            let ignored = restart.is_some().then_some("--include-ignored");
            let _restart = restart.map(|restart| shell.push_env(stores::RESTART, restart));
            let test = ["--nocapture", "--test-threads=1"];
            let test = [&test[..], ignored.as_slice(), &[RESTARTS]].concat();
            Ok(cmd!(shell, "cargo test --quiet {EACH...} -- {test...}").run()?)
        });
    }
    let kills = flags.kills.unwrap_or(KILLS).to_string();
    let store = flags.on.as_deref().unwrap_or("sqlite");
    let of_run = ["--kills", &kills, "--seed", &seed, "--on", store];
    let kill = |shell: &Shell| cmd!(shell, "cargo test --quiet {ALL...} -- {of_run...}").run();
    if store == "sqlite" {
        return Ok(kill(&workspace.shell()?)?);
    }
    stores::with_servers(workspace, |shell, _| Ok(kill(shell)?))
}
