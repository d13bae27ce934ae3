//! pool-core
