//! worker-queue
