//! Sessions with one server, with the nodes of a cluster, or with the master that sentinels name.

pub(crate) mod checks;
pub(crate) mod cluster;
pub(crate) mod connector;
pub(crate) mod pool;
pub(crate) mod sentinel;
pub(crate) mod session;
