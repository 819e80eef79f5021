//! One module for each command.

pub(crate) mod check;
pub(crate) mod init;
mod input;
pub(crate) mod serve;
pub(crate) mod sign;
pub(crate) mod verify;
