//! `modbus`: meters on a rail and inverters, which are asked, over RS-485 or TCP.

pub mod registers;
pub mod sunspec;

use std::time::Duration;

use serde::Deserialize;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_modbus::Slave;
use tokio_modbus::client::{Context, Reader as _, rtu, tcp};

use crate::config::{ConfigError, ModbusConfig, Parity, RegisterConfig, counter_step, interval_millis, within};
use crate::link::Link;
use crate::mqtt::unit;
use crate::outlet::{Outlet, Stop};
use crate::sample::Values;
use crate::serial::{Framing, Line};
use crate::slot_mean::{Cadence, Liveness};
use crate::units::{Sign, Unit};
use registers::{NumberType, Register, Table, WordOrder, sum};
use sunspec::Model;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// No device lists more models.
const MOST_MODELS: usize = 200;

/// A device that is known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Preset {
    #[serde(rename = "eastron-sdm72")]
    EastronSdm72,
    #[serde(rename = "eastron-sdm120")]
    EastronSdm120,
    #[serde(rename = "eastron-sdm230")]
    EastronSdm230,
    #[serde(rename = "eastron-sdm630")]
    EastronSdm630,
    /// Any meter with a SunSpec model from 201 to 204 or from 211 to 214.
    #[serde(rename = "sunspec")]
    Sunspec,
}

#[derive(Debug)]
pub(crate) struct Modbus {
    link: Link,
    line: Line,
    /// Whether frames are those of RS-485, also through a bridge.
    is_rtu: bool,
    device: Slave,
    points: Points,
    power_sign: Sign,
    invert: bool,
    import_only: bool,
    every: Duration,
    cadence: Cadence,
}

#[derive(Debug)]
enum Points {
    Registers { power: Vec<Register>, import: Vec<Register>, export: Vec<Register> },
    Sunspec,
}

impl Modbus {
    pub(crate) fn new(config: ModbusConfig) -> Result<Self, ConfigError> {
        let is_rtu = config.serial.is_some() || config.rtu_over_tcp;
        let link = Link::new(config.serial, config.tcp)?;
        let baud = u32::try_from(within("baud", config.baud.into(), 300..=921_600)?).unwrap_or(9600);
        let framing = match config.parity {
            Parity::None => Framing::EightNone,
            Parity::Even => Framing::EightEven,
        };
        let points = points(config.preset, config.power, config.import, config.export)?;
        let interval_millis = interval_millis(config.interval_seconds)?;
        let counter_step = counter_step(config.counter_step_wh)?;
        let device = u8::try_from(within("unit_id", config.unit_id.into(), 0..=247)?).unwrap_or(1);
        Ok(Self {
            link,
            line: Line { baud, framing },
            is_rtu,
            device: Slave(device),
            points,
            power_sign: config.power_sign,
            invert: config.invert,
            import_only: config.import_only,
            every: Duration::from_millis(interval_millis),
            cadence: Cadence { liveness: Liveness::Every { interval_millis }, counter_step },
        })
    }

    pub(crate) const fn cadence(&self) -> Cadence {
        self.cadence
    }

    pub(crate) async fn session(&mut self, outlet: &mut Outlet) -> Stop {
        self.ask_again_and_again(outlet).await.err().unwrap_or(Stop::Closed)
    }

    /// Asks until something is wrong, which it always returns.
    async fn ask_again_and_again(&self, outlet: &mut Outlet) -> Result<(), Stop> {
        let stream = self.link.open(self.line).await?;
        let context =
            if self.is_rtu { rtu::attach_slave(stream, self.device) } else { tcp::attach_slave(stream, self.device) };
        let mut device = Device(context);
        let meter = match self.points {
            Points::Registers { .. } => None,
            Points::Sunspec => Some(device.find_meter().await.map_err(Stop::Lost)?),
        };
        outlet.connected().await?;
        let mut ticks = interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let values = match (&self.points, meter) {
                (Points::Sunspec, Some((model, address))) => device.model(model, address).await,
                (Points::Sunspec, None) => Ok(Values::default()),
                (Points::Registers { power, import, export }, _) => device.registers(power, import, export).await,
            };
            outlet.sample(self.finish(values.map_err(Stop::Lost)?)?).await?;
        }
    }

    fn finish(&self, values: Values) -> Result<Values, Stop> {
        if values.is_empty() {
            return Err(Stop::Lost("the device says of none of its values that it has it".to_owned()));
        }
        let power = values.power.map(|power| self.power_sign.apply(power));
        let export = if self.import_only && values.import.is_some() { Some(0) } else { values.export };
        let values = Values { power, export, ..values };
        Ok(if self.invert { values.inverted() } else { values })
    }
}

/// A device that is asked.
struct Device(Context);

impl Device {
    async fn read(&mut self, table: Table, address: u16, words: u16) -> Result<Vec<u16>, String> {
        let at = |problem: String| {
            format!("registers {address} to {}: {problem}", u32::from(address) + u32::from(words) - 1)
        };
        let answer = match table {
            Table::Holding => timeout(PATIENCE, self.0.read_holding_registers(address, words)).await,
            Table::Input => timeout(PATIENCE, self.0.read_input_registers(address, words)).await,
        };
        match answer {
            Ok(Ok(Ok(words))) => Ok(words),
            Ok(Ok(Err(exception))) => Err(at(format!("the device refuses them: {exception}"))),
            Ok(Err(error)) => Err(at(error.to_string())),
            Err(_) => Err(at(format!("no answer within {} s; see `unit_id`, speed and wiring", PATIENCE.as_secs()))),
        }
    }

    async fn registers(
        &mut self,
        power: &[Register],
        import: &[Register],
        export: &[Register],
    ) -> Result<Values, String> {
        let (power, import, export) = (self.sum(power).await?, self.sum(import).await?, self.sum(export).await?);
        // Floats of different size have different steps, of which the coarser counts.
        let step = [import, export].into_iter().flatten().filter_map(|(_, step)| step).max();
        let value = |number: Option<(i64, Option<i64>)>| number.map(|(value, _)| value);
        Ok(Values { power: value(power), import: value(import), export: value(export), step })
    }

    async fn sum(&mut self, registers: &[Register]) -> Result<Option<(i64, Option<i64>)>, String> {
        let mut values = Vec::with_capacity(registers.len());
        for register in registers {
            let words = self.read(register.table, register.address, register.number.words()).await?;
            values.push(register.value(&words));
        }
        Ok(if values.is_empty() { None } else { sum(values) })
    }

    async fn model(&mut self, model: Model, address: u16) -> Result<Values, String> {
        let (first, words) = model.block();
        let block = self.read(Table::Holding, address.saturating_add(first), words).await?;
        Ok(model.values(&block))
    }

    /// Finds the first meter among the models of a device, and the register of its id.
    async fn find_meter(&mut self) -> Result<(Model, u16), String> {
        let mut problem = None;
        for base in sunspec::BASES {
            match self.read(Table::Holding, base, 2).await {
                Ok(words) if words == sunspec::MARK => return self.walk(base + 2).await,
                Ok(_) => {}
                Err(error) => problem = Some(error),
            }
        }
        let why = problem.map_or_else(String::new, |problem| format!(" ({problem})"));
        Err(format!("the device is not one of SunSpec: no `SunS` in register 40000, 50000 or 0{why}"))
    }

    async fn walk(&mut self, mut address: u16) -> Result<(Model, u16), String> {
        for _ in 0..MOST_MODELS {
            let head = self.read(Table::Holding, address, 2).await?;
            let [id, length] = head[..] else { return Err("a model has no length".to_owned()) };
            if let Some(model) = Model::of(id) {
                return Ok((model, address));
            }
            let next = address.checked_add(length).and_then(|address| address.checked_add(2));
            match next {
                Some(next) if id != sunspec::END => address = next,
                Some(_) | None => break,
            }
        }
        Err("the device has no SunSpec model of a meter (201 to 204 or 211 to 214); see `unit_id`: a meter behind an inverter often has its own".to_owned())
    }
}

fn points(
    preset: Option<Preset>,
    power: Option<Vec<RegisterConfig>>,
    import: Option<Vec<RegisterConfig>>,
    export: Option<Vec<RegisterConfig>>,
) -> Result<Points, ConfigError> {
    // Eastron: floats in input registers; total power of all phases, or of the only one.
    let sdm = |address, unit| Register {
        table: Table::Input,
        address,
        number: NumberType::Float32,
        order: WordOrder::BigEndian,
        exponent: 0,
        unit,
        sign: Sign::Import,
    };
    let total_power = match preset {
        Some(Preset::Sunspec) => {
            if power.is_some() || import.is_some() || export.is_some() {
                return Err(ConfigError::new(
                    "preset",
                    "\"sunspec\" finds its registers itself; leave `power`, `import` and `export` out",
                ));
            }
            return Ok(Points::Sunspec);
        }
        Some(Preset::EastronSdm72 | Preset::EastronSdm630) => Some(0x34),
        Some(Preset::EastronSdm120 | Preset::EastronSdm230) => Some(0x0c),
        None => None,
    };
    let of_preset =
        |address: Option<u16>, unit| address.map(|address| sdm(address, unit)).into_iter().collect::<Vec<_>>();
    let by_hand = |key: &str, registers: Option<Vec<RegisterConfig>>, otherwise: Vec<Register>| match registers {
        Some(registers) => registers.into_iter().map(|config| register(key, config)).collect(),
        None => Ok(otherwise),
    };
    let power = by_hand("power", power, of_preset(total_power, Unit::W))?;
    let import = by_hand("import", import, of_preset(total_power.map(|_| 0x48), Unit::KiloWh))?;
    let export = by_hand("export", export, of_preset(total_power.map(|_| 0x4a), Unit::KiloWh))?;
    if power.is_empty() && import.is_empty() && export.is_empty() {
        let problem = "is missing: name a preset, or give [[source.power]] or [[source.import]] and [[source.export]] with address, type and unit";
        return Err(ConfigError::new("power", problem));
    }
    Ok(Points::Registers { power, import, export })
}

fn register(key: &str, config: RegisterConfig) -> Result<Register, ConfigError> {
    if !(-10..=10).contains(&config.exponent) {
        return Err(ConfigError::new(
            format!("{key}.exponent"),
            format!("is {}; allowed are -10 to 10", config.exponent),
        ));
    }
    Ok(Register {
        table: config.table,
        address: config.address,
        number: config.number,
        order: config.word_order,
        exponent: config.exponent,
        unit: unit(key, config.unit)?,
        sign: config.sign,
    })
}
