//! One module for each command, and what several of them share.

pub(crate) mod attempts;
pub(crate) mod check;
pub(crate) mod dead_letters;
pub(crate) mod demo;
pub(crate) mod events;
mod human;
mod inbox;
pub(crate) mod init;
mod input;
pub(crate) mod operate;
mod page;
pub(crate) mod sandbox;
pub(crate) mod serve;
mod shown;
pub(crate) mod sign;
mod signals;
pub(crate) mod stats;
pub(crate) mod verify;
