//! The definition of the command line.

use std::str::FromStr;

use anyhow::ensure;

xflags::xflags! {
    /// Every chore of the workspace.
    cmd xtask {
        /// Runs all checks that a change must pass, in about 20 minutes on two cores. With CI=true,
        /// fails if a test of a store was left out.
        cmd ci {
            /// Only the steps whose name contains this.
            optional --only step: String
            /// Only the steps that build in folders of their own. By default they run concurrently
            /// with the others.
            optional --apart
        }

        /// Runs the tests and doc tests of the pools and queues in memory. Takes 200 s of processor
        /// time and 0.6 GB from a fresh clone, and builds no C code and no database client.
        cmd test {
            /// Also durable queues (which need a C compiler), the example programs and xtask.
            optional --all
            /// Pin the tests to one core.
            optional --one-core
        }

        /// Runs the loom models. Each must be listed in docs/models.tsv, and explore at least half
        /// of the number of executions there.
        cmd loom {
            /// Explore up to this many pre-emptions (or `none` for all), without a comparison.
            optional --bound bound: Bound
            /// Only the tests whose `crate::test` contains this.
            optional --only filter: String
            /// Write new models into the table, and numbers that have doubled or halved.
            optional --update
        }

        /// Runs whole pools and queues in random schedules, determined by seeds.
        cmd shuttle {
            /// Schedules per scenario (default 20,000; fewer in ci).
            optional --iters iters: u64
            /// Only the scenarios whose `crate::test` contains this.
            optional --only filter: String
            /// The first seed (default 0): a failure prints its own.
            optional --seed seed: u64
        }

        /// Tries the mutants, each of which a model or a test must detect.
        cmd cmutants {
            /// Only the mutants whose id contains this; several parts are separated by commas.
            optional --only id: String
            /// Mutants tried at a time, each in its own copy of the tree (default 1).
            optional --jobs jobs: usize
            /// Also try the mutants that are listed as equivalent, which must survive.
            optional --all
        }

        /// Runs the tests under load and pinned to one core, and the long random programs.
        cmd stress {
            /// Number of rounds (default 10).
            optional --rounds rounds: u64
            /// Run rounds until this many minutes have passed.
            optional --minutes minutes: u64
        }

        /// Kills processes that share a durable queue, at random, and compares their logs.
        cmd crash {
            /// Number of kills (default 200).
            optional --kills kills: u64
            /// The store of the queue: sqlite (default), postgres or redis.
            optional --on store: String
            /// Instead of kills, this many disturbances by a proxy of the connections to each
            /// server: it cuts, half-closes, delays, hangs and refuses them. Starts and stops the
            /// servers.
            optional --proxy disturbances: u64
            /// Instead of kills, this many crashes of each server. Starts and stops the servers.
            optional --restarts restarts: u64
            /// Seed of the victims and times (default 1).
            optional --seed seed: u64
        }

        /// Runs processes of an older version of durable-queue and of this one on a common store,
        /// through an upgrade and a rollback: first without kills, then with kills, half of them of
        /// older processes.
        cmd versions {
            /// The commit of the older version (default: the last release).
            optional --old commit: String
            /// Only on this store: sqlite, postgres or redis.
            optional --on store: String
            /// Number of kills (default 12).
            optional --kills kills: u64
            /// Seed of the victims and times (default 1).
            optional --seed seed: u64
        }

        /// Compares Anthill with its peers, in about 45 minutes. `cargo xtask bench --help` lists
        /// the other benchmarks.
        cmd bench {}

        /// Runs the tests under a sanitizer: asan, tsan or memcheck; by default asan and tsan.
        cmd sanitize {
            optional tool: String
            /// Only this crate.
            optional -p, --package package: String
            /// Install missing tools (with apt-get).
            optional --install
        }

        /// Counts the system calls per task of a busy pool.
        cmd syscalls {}

        /// Writes docs/dependencies.md.
        cmd deps {
            /// Compare the page instead of writing it.
            optional --check
        }

        /// Compares the public items of each published crate with docs/api.
        cmd api {
            /// Write the lists.
            optional --update
        }

        /// Starts or stops real servers below target/stores, for the tests of durable-queue's
        /// stores.
        cmd stores {
            /// up: starts the installed servers. down: stops them and deletes their data.
            required what: String
            /// Only this server: postgres or redis.
            optional --only server: String
        }

        /// Checks the rules of this repository that no compiler checks, and prints statistics of
        /// its size.
        cmd hygiene {
            /// Also print the statistics for which programs must be built.
            optional --build
        }
    }
}

/// A number of pre-emptions, or `none`, as models print it.
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
