//! `bench --stores`: our durable stores beside their peers, on real servers.
//!
//! Ours and the yardsticks are one program, the peers another, in a workspace of its own: some of them
//! bring a `SQLite` that is not ours, and one program links one.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use indicatif::ProgressBar;
use xshell::Shell;

use super::plan::{Case, Choice, Plan};
use super::program::{Outcome, Package, Program, Run, Runner, at_once};
use super::report::{self, Group};
use super::rounds::{self, Runs};
use super::slopes::is_slope;
use super::{FOLDER, MANIFEST, bar};
use crate::flags;
use crate::stores;
use crate::workspace::Workspace;

/// A minute is watched, and a million jobs are entered.
const LIMIT: Duration = Duration::from_secs(300);
const OURS: Package = Package {
    name: "stores",
    manifest: MANIFEST,
    folder: FOLDER,
    limit: LIMIT,
};
const PEERS: Package = Package {
    name: "stores-peers",
    manifest: "benches/stores-peers/Cargo.toml",
    folder: "stores-peers",
    limit: LIMIT,
};
/// Rounds, if not said: each takes some minutes.
const ROUNDS: usize = 5;
/// Rounds of the slopes, which count more than they time.
const SLOPE_ROUNDS: usize = 3;

/// The number of rounds, and what they showed.
pub(super) fn compare(
    workspace: &Workspace,
    shell: &Shell,
    flags: &flags::Bench,
) -> Result<(usize, Vec<Group>)> {
    let mut programs = vec![Program::build(workspace, shell, &OURS, "release")?];
    if !flags.no_peers {
        programs.push(Program::build(workspace, shell, &PEERS, "release")?);
    }
    let choice = Choice {
        quick: flags.quick,
        alone: true,
        only: flags.only.clone(),
        peers: flags.peer.clone(),
        rounds: flags.rounds.or((!flags.quick).then_some(ROUNDS)),
    };
    with_servers(workspace, |urls| {
        let mut stores = Stores::new(programs, urls)?;
        stores.cases.retain(|case| !is_slope(case));
        let plan = Plan::new(&stores.cases, &choice);
        let runs = rounds::run(&plan, &mut stores, &bar(plan.runs()));
        Ok((plan.rounds, report::groups(&plan, &runs)))
    })
}

/// What each call of ours costs next to more and more contents.
pub(super) fn slopes(
    workspace: &Workspace,
    shell: &Shell,
    flags: &flags::Bench,
) -> Result<(Plan, Vec<Vec<Runs>>)> {
    let program = Program::build(workspace, shell, &OURS, "release")?;
    let choice = Choice {
        quick: flags.quick,
        alone: true,
        only: flags.only.clone(),
        peers: flags.peer.clone(),
        rounds: flags.rounds.or((!flags.quick).then_some(SLOPE_ROUNDS)),
    };
    with_servers(workspace, |urls| {
        let mut stores = Stores::new(vec![program], urls)?;
        stores.cases.retain(is_slope);
        let plan = Plan::new(&stores.cases, &choice);
        let runs = rounds::run(&plan, &mut stores, &bar(plan.runs()));
        Ok((plan, runs))
    })
}

/// Each quick case of ours once, unoptimized, on the servers that are up.
pub(super) fn smoke(workspace: &Workspace, shell: &Shell) -> Result<()> {
    let program = Program::build(workspace, shell, &OURS, "dev")?;
    with_servers(workspace, |urls| {
        let mut stores = Stores::new(vec![program], urls)?;
        let choice = Choice {
            quick: true,
            rounds: Some(1),
            ..Choice::default()
        };
        let plan = Plan::new(&stores.cases, &choice);
        let runs = rounds::run(&plan, &mut stores, &ProgressBar::hidden());
        let failures = runs.iter().flatten().filter(|runs| runs.failure.is_some());
        let failures = failures.count();
        ensure!(
            failures == 0,
            "{failures} of {} runs of the comparison of stores failed",
            plan.runs()
        );
        println!("the comparison of stores ran {} times", plan.runs());
        Ok(())
    })
}

/// The servers are stopped after it, unless they were up before. What is not installed is left out, and
/// said so.
fn with_servers<T>(
    workspace: &Workspace,
    run: impl FnOnce(&[(&'static str, String)]) -> Result<T>,
) -> Result<T> {
    let were_up = stores::are_up(workspace);
    let urls = stores::up(workspace, None)?;
    let ran = run(&urls);
    if !were_up {
        stores::down(workspace, None)?;
    }
    ran
}

/// The programs as one: each pool is in one of them.
struct Stores {
    programs: Vec<(Program, BTreeSet<String>)>,
    /// Of one name each, with the pools of all programs, ours first.
    cases: Vec<Case>,
}

impl Stores {
    fn new(programs: Vec<Program>, urls: &[(&'static str, String)]) -> Result<Self> {
        let mut stores = Self {
            programs: Vec::new(),
            cases: Vec::new(),
        };
        for mut program in programs {
            program.set_variables(urls);
            let listed = program.list()?;
            let pools = listed.iter().flat_map(|case| case.pools.iter().cloned());
            stores.programs.push((program, pools.collect()));
            merge(&mut stores.cases, listed);
        }
        Ok(stores)
    }
}

fn merge(cases: &mut Vec<Case>, listed: Vec<Case>) {
    for case in listed {
        let Some(known) = cases.iter_mut().find(|known| known.name == case.name) else {
            cases.push(case);
            continue;
        };
        known.pools.extend(case.pools);
        if let (Some(known), Some(more)) = (&mut known.quick_pools, case.quick_pools) {
            known.extend(more);
        }
    }
}

impl Runner for Stores {
    fn run(&mut self, runs: &[Run<'_>]) -> Vec<Outcome> {
        at_once(runs, |index, run| {
            let mut programs = self.programs.iter();
            let of = programs.find(|(_, pools)| pools.contains(run.pool));
            of.map_or_else(
                || Err("no program has it".to_owned()),
                |(program, _)| program.run_one(index, run),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::cases;
    use super::*;

    #[test]
    fn the_pools_of_all_programs_stand_in_one_case() {
        let ours = r#"{"case":"push","group":"P","question":"?","pools":["ours, A","bare B"],"quick_pools":["ours, A"]}"#;
        let theirs = r#"{"case":"push","group":"P","question":"?","pools":["c"],"quick_pools":["c"]}
            {"case":"work","group":"W","question":"?","pools":["c"]}"#;
        let mut all = cases(ours).expect("well-formed");
        merge(&mut all, cases(theirs).expect("well-formed"));
        let names: Vec<&str> = all.iter().map(|case| &*case.name).collect();
        assert_eq!(names, ["push", "work"]);
        assert_eq!(all[0].pools, ["ours, A", "bare B", "c"]);
        let quick = all[0].quick_pools.as_deref();
        assert_eq!(quick.expect("they are said"), ["ours, A", "c"]);
    }
}
