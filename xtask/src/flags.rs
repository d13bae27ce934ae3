//! The command line: what may be asked, not what it does.

use std::str::FromStr;

use anyhow::ensure;

xflags::xflags! {
    /// Every chore of the workspace.
    cmd xtask {
        /// Everything a change must pass, in about 20 minutes on two cores. With CI=true it fails if a test of a store is
        /// left out.
        cmd ci {
            /// Only the steps whose name contains this.
            optional --only step: String
            /// Only the steps that build in a folder of their own. Without flags these run at the same time as the others.
            optional --apart
        }

        /// The tests and doc tests of the pools and queues in memory: 200 s of processor time, 0.5 GB.
        cmd test {
            /// Also durable queues (which need a C compiler), the example programs and this program.
            optional --all
            /// Pin the tests to one core.
            optional --one-core
        }

        /// The loom models, compared with docs/models.tsv.
        cmd loom {
            /// Explore this many pre-emptions (or `none` for all), compared with no table.
            optional --bound bound: Bound
            /// Only the tests whose `crate::test` contains this.
            optional --only filter: String
            /// Write what the models yield into the table.
            optional --update
        }

        /// Random schedules of whole pools and queues, by their seeds.
        cmd shuttle {
            /// How many schedules of each scenario (default 20,000; ci explores fewer).
            optional --iters iters: u64
            /// Only the scenarios whose `crate::test` contains this.
            optional --only filter: String
            /// The first seed (default 0): a failure prints its own.
            optional --seed seed: u64
        }

        /// The concurrency mutants: each must be killed by a model or a test.
        cmd cmutants {
            /// Only the mutants whose id contains this, or one of these with commas between.
            optional --only id: String
            /// Only those that were never tried: xtask/cmutants/fates.tsv has no line of them.
            optional --new
            /// Mutants tried at a time, each in a copy of the tree (default 1).
            optional --jobs jobs: usize
            /// Also run the mutants that are listed as equivalent: nothing may kill one.
            optional --all
        }

        /// The tests under load and pinned to one core, and the long random programs.
        cmd stress {
            /// How many rounds (default 10).
            optional --rounds rounds: u64
            /// Rounds until this many minutes have passed.
            optional --minutes minutes: u64
        }

        /// Kills the processes that share a durable queue, at random, and compares what they wrote down.
        cmd crash {
            /// How many kills (default 200).
            optional --kills kills: u64
            /// Where the queue is that they share: sqlite (default), postgres or redis.
            optional --on store: String
            /// Instead of kills so often a proxy disturbs the connections to each of the servers, which are
            /// started and stopped: it cuts, half-closes, delays, hangs and refuses.
            optional --proxy disturbances: u64
            /// Instead of kills the servers themselves, which are started and stopped, die so often each.
            optional --restarts restarts: u64
            /// Which victims and when (default 1).
            optional --seed seed: u64
        }

        /// Processes of an older version of durable-queue and of this one share a store, upgrade it and go back: first
        /// without a kill, then half of the processes that are killed are older ones.
        cmd versions {
            /// The commit of the older version; the recorded one if not said.
            optional --old commit: String
            /// Only on this store: sqlite, postgres or redis.
            optional --on store: String
            /// How many kills (default 12).
            optional --kills kills: u64
            /// Which victims and when (default 1).
            optional --seed seed: u64
        }

        /// Anthill compared with its peers, in about 45 minutes: `cargo xtask bench --help` lists what else there is.
        cmd bench {}

        /// The tests under a sanitizer: asan, tsan or memcheck; without a name asan and tsan.
        cmd sanitize {
            optional tool: String
            /// Only this crate.
            optional -p, --package package: String
            /// Get what is missing (through apt-get).
            optional --install
        }

        /// System calls per task of a busy pool.
        cmd syscalls {}

        /// Write docs/dependencies.md.
        cmd deps {
            /// Only compare it.
            optional --check
        }

        /// The public items of each published crate, compared with docs/api.
        cmd api {
            /// Write the lists.
            optional --update
        }

        /// Real servers below target/stores, for the tests of durable-queue's stores: up or down.
        cmd stores {
            /// up: starts those that are installed. down: stops them and deletes what they hold.
            required what: String
            /// Only this one: postgres or redis.
            optional --only server: String
        }

        /// The rules of this repository that no compiler checks, and the figures of its size.
        cmd hygiene {
            /// Also the figures that need a program to be built.
            optional --build
        }
    }
}

/// A number of pre-emptions, or `none`: the words that the models themselves print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bound(pub(crate) String);

impl FromStr for Bound {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let is_bound = text == "none" || text.parse::<usize>().is_ok();
        ensure!(is_bound, "the bound is a number or `none`");
        Ok(Self(text.to_owned()))
    }
}
