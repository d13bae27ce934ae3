//! anthill
