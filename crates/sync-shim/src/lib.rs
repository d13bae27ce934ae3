//! sync-shim
