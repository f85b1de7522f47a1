//! `p1`: the customer port of Dutch, Belgian, Luxembourgish and Swedish meters, and others that send OBIS lines in text.

pub mod frames;
pub mod telegram;
