//! The command line.

xflags::xflags! {
    /// Anthill compared with its peers (benches/compare), in about 45 minutes.
    cmd judge {
        /// Few cases, three short rounds, nothing oversubscribed; all within two minutes.
        optional --quick
        /// Only the cases whose name contains this; may be given repeatedly. With `+spin` behind it only those that
        /// run while a process per core spins.
        repeated --only case: String
        /// Only the pools whose name contains this, and ours; may be given repeatedly.
        repeated --peer name: String
        /// Leave out the rows with a spinning process per core.
        optional --alone
        /// How often each case runs on each pool (default 7; stores and futures 5, slopes and call sites 3, --quick 3).
        optional --rounds rounds: usize
        /// Our durable stores and their peers instead (benches/stores), on real servers, which are started and
        /// stopped.
        optional --stores
        /// With --stores: ours and the yardsticks alone. The peers take a quarter of an hour to build.
        optional --no-peers
        /// What each call of our durable stores costs next to more and more jobs, keys and queues instead: the
        /// table of docs/benchmarks/stores.md, which is written anew, unless --quick, --only or --peer is given.
        optional --slopes
        /// `async-pool` and executors of futures (benches/futures) instead: docs/benchmarks/futures.md, whose tables are
        /// written anew, unless --quick, --only or --peer is given.
        optional --futures
        /// What a call site costs to compile instead, ours and the peers': processor time and machine code.
        optional --sites
        /// Draw the charts of docs/benchmarks from charts.tsv instead.
        optional --charts
        /// Run everything once instead, unoptimized, to see that it works.
        optional --smoke
    }
}
