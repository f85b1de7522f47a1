//! A real home takes part in a DREAM cluster: a source of readings in, the protocol's own [`Meter`] in the middle, the
//! community's broker out.
//!
//! To build a meter of your own, begin with [`driver`]: it is all that the machine needs around it, and the order in which things
//! happen there is the durability contract of `protocol.md 9`. Around it:
//!
//! - [`config`], [`identity`]: the owner's one file, with the policy that nothing remote can widen, and who the meter is;
//! - [`records`], [`origin`]: what it keeps, erased as far as a file can be, and whether it was copied or restored;
//! - [`clock`]: when the time is to be believed;
//! - [`broker`]: MQTT, for the community and the home alike, on connections of their own;
//! - [`standing`]: what the owner sees, which never includes a reading; [`http`] and [`home`] show it, [`words`] says it;
//! - [`shared`]: what the home has given away, added up; [`explain`] says it;
//! - [`renewal`], [`oversight`]: a certificate that renews itself, and a look at the register of who signs it;
//! - [`agent`]: puts it together; [`cmd`]: the command line;
//! - [`authority`]: certificates for a community; [`invitation`] and [`est`]: how homes get them.
//!
//! [`Meter`]: dream_protocol::meter::Meter

pub mod agent;
pub mod authority;
pub mod broker;
pub mod clock;
pub mod cmd;
pub mod config;
pub mod driver;
pub mod est;
pub mod explain;
pub mod files;
pub mod home;
pub mod http;
pub mod identity;
pub mod invitation;
mod logging;
pub mod origin;
pub mod oversight;
pub mod records;
pub mod renewal;
pub mod shared;
pub mod standing;
pub mod words;
