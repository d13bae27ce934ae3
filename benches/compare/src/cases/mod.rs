//! The cases, one file per question.

mod batch;
mod burst;
mod captures;
mod checksum;
mod elastic;
mod empty;
mod group;
mod handoff;
mod ideal;
mod idle;
mod keyed;
mod locks;
mod map;
mod multi;
mod nested;
mod options;
mod overload;
mod own_wait;
mod priorities;
mod round_trip;
mod scaling;
mod scope;
mod sleepers;
mod start;
mod typed;

use measure::case::Case;

/// Every case, in the order of the report.
pub fn all() -> Vec<Case> {
    [
        empty::cases(),
        handoff::cases(),
        ideal::cases(),
        captures::cases(),
        typed::cases(),
        nested::cases(),
        map::cases(),
        scope::cases(),
        batch::cases(),
        keyed::cases(),
        priorities::cases(),
        options::cases(),
        group::cases(),
        round_trip::cases(),
        own_wait::cases(),
        start::cases(),
        sleepers::cases(),
        overload::cases(),
        burst::cases(),
        idle::cases(),
        elastic::cases(),
        scaling::cases(),
        multi::cases(),
        locks::cases(),
        checksum::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
