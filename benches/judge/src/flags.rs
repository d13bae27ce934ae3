//! The command line.

xflags::xflags! {
    /// Compare Anthill with its peers (benches/compare), in about 45 minutes.
    cmd judge {
        /// Few cases in three short rounds, none oversubscribed; takes two minutes.
        optional --quick
        /// Only cases whose name contains this; can be repeated. The suffix `+spin` selects only
        /// the rows with a spinning process per core.
        repeated --only case: String
        /// Only pools whose name contains this, and ours; can be repeated.
        repeated --peer name: String
        /// Leave out the rows with a spinning process per core.
        optional --alone
        /// Rounds of each case and pool (default 7; stores and futures 5, slopes and call sites 3,
        /// --quick 3).
        optional --rounds rounds: usize
        /// Compare our durable stores with their peers (benches/stores), on real servers, which are
        /// started and stopped.
        optional --stores
        /// With --stores: only ours and the yardsticks. The peers take a quarter of an hour to
        /// build.
        optional --no-peers
        /// Measure the cost of each call of our durable stores over growing numbers of jobs, keys
        /// and queues. Rewrites the table of docs/benchmarks/stores.md, unless --quick, --only or
        /// --peer is given.
        optional --slopes
        /// Compare `async-pool` with executors of futures (benches/futures). Rewrites the tables of
        /// docs/benchmarks/futures.md, unless --quick, --only or --peer is given.
        optional --futures
        /// Measure what a call site costs to compile, ours and the peers': processor time and
        /// machine code.
        optional --sites
        /// Draw the charts of docs/benchmarks from charts.tsv.
        optional --charts
        /// Run everything once, unoptimized, as a test.
        optional --smoke
    }
}
