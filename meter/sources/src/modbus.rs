//! `modbus`: meters on a rail and inverters, which are asked, over RS-485 or TCP.

pub mod registers;
pub mod sunspec;

use std::time::Duration;

use dream_edge::config::Section;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_modbus::Slave;
use tokio_modbus::client::{Context, Reader as _, rtu, tcp};

use crate::config::{cadence, check_directions, nothing_to_read, required_unit, sign, unit};
use crate::link::Link;
use crate::mapping::Trouble;
use crate::outlet::{Outlet, Stop};
use crate::sample::Values;
use crate::serial::{Framing, Line};
use crate::slot_mean::Cadence;
use crate::units::{Sign, Unit};
use registers::{NumberType, Register, Table, WordOrder, sum};
use sunspec::Model;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// No device lists more models.
const MOST_MODELS: usize = 200;

/// A device that is known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preset {
    /// Any meter with a SunSpec model from 201 to 204 or from 211 to 214.
    Sunspec,
    /// With the register of the total power.
    Eastron(u16),
}

/// Eastron: total power of all phases, or of the only one.
const PRESETS: [(&str, Preset); 5] = [
    ("eastron-sdm72", Preset::Eastron(0x34)),
    ("eastron-sdm120", Preset::Eastron(0x0c)),
    ("eastron-sdm230", Preset::Eastron(0x0c)),
    ("eastron-sdm630", Preset::Eastron(0x34)),
    ("sunspec", Preset::Sunspec),
];

#[derive(Debug, Clone)]
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

#[derive(Debug, Clone)]
enum Points {
    Registers { power: Vec<Register>, import: Vec<Register>, export: Vec<Register> },
    Sunspec,
}

impl Modbus {
    pub(crate) fn read(section: &Section<'_>) -> Option<Self> {
        let link = Link::read(section);
        // Whether a bridge passes on the frames of RS-485 as they are.
        let is_rtu = section.key("rtu_over_tcp").flag().unwrap_or(false) || matches!(link, Some(Link::Serial(_)));
        let parities = [("none", Framing::EightNone), ("even", Framing::EightEven)];
        let line = Line {
            baud: section.key("baud").number(300..=921_600).unwrap_or(9600),
            framing: section.key("parity").one_of(&parities).unwrap_or(Framing::EightNone),
        };
        let (cadence, interval_millis) = cadence(section);
        let device = Slave(section.key("unit_id").number(0..=247).unwrap_or(1));
        let points = points(section);
        // What a positive power means: makers of SunSpec meters do not agree.
        let power_sign = sign(section, "power_sign");
        let invert = section.key("invert").flag().unwrap_or(false);
        let import_only = section.key("import_only").flag().unwrap_or(false);
        if let Points::Registers { power, import, export } = &points {
            let [power, import, export] = [power, import, export].map(|registers| !registers.is_empty());
            check_directions(section, power, import, export, import_only);
        }
        let every = Duration::from_millis(interval_millis);
        Some(Self { link: link?, line, is_rtu, device, points, power_sign, invert, import_only, every, cadence })
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
            match self.finish(values.map_err(Stop::Lost)?) {
                Ok(values) => outlet.sample(values).await?,
                Err(Trouble::Lost(problem)) => return Err(Stop::Lost(problem)),
                Err(Trouble::Refused(problem)) => outlet.refused(problem).await?,
            }
        }
    }

    fn finish(&self, values: Values) -> Result<Values, Trouble> {
        if values.is_empty() {
            return Err(Trouble::Lost("the device has none of the configured values".to_owned()));
        }
        let power = values.power.map(|power| self.power_sign.apply(power));
        let values = Values { power, ..values }.import_only(self.import_only)?;
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
            Err(_) => {
                Err(at(format!("no answer within {} s; check `unit_id`, baud rate and wiring", PATIENCE.as_secs())))
            }
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
        Err(format!("not a SunSpec device: no `SunS` in register 40000, 50000 or 0{why}"))
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
        Err("the device has no SunSpec model of a meter (201 to 204 or 211 to 214); check `unit_id`: a meter behind an inverter often has its own".to_owned())
    }
}

fn points(section: &Section<'_>) -> Points {
    let preset = section.key("preset").one_of(&PRESETS);
    let lists = ["power", "import", "export"].map(|name| {
        let items = section.list(name)?;
        Some(items.iter().filter_map(|item| register(item, name == "power")).collect::<Vec<_>>())
    });
    if preset == Some(Preset::Sunspec) {
        if lists.iter().any(Option::is_some) {
            section.wrong("preset", "\"sunspec\" finds its registers itself; leave `power`, `import` and `export` out");
        }
        return Points::Sunspec;
    }
    if lists.iter().all(|list| list.as_ref().is_none_or(Vec::is_empty))
        && ["preset", "power", "import", "export"].iter().all(|name| !section.has(name))
    {
        nothing_to_read(section, "address, type and unit");
    }
    // Floats in input registers.
    let sdm = |address, unit| Register {
        table: Table::Input,
        address,
        number: NumberType::Float32,
        order: WordOrder::BigEndian,
        exponent: 0,
        unit,
        sign: Sign::Import,
    };
    let of_preset = match preset {
        Some(Preset::Eastron(total)) => {
            [sdm(total, Unit::W), sdm(0x48, Unit::KiloWh), sdm(0x4a, Unit::KiloWh)].map(|register| vec![register])
        }
        Some(Preset::Sunspec) | None => Default::default(),
    };
    let mut all = lists.into_iter().zip(of_preset).map(|(list, otherwise)| list.unwrap_or(otherwise));
    let mut next = || all.next().unwrap_or_default();
    Points::Registers { power: next(), import: next(), export: next() }
}

fn register(section: &Section<'_>, is_power: bool) -> Option<Register> {
    let types = [
        ("int16", NumberType::Int16),
        ("uint16", NumberType::Uint16),
        ("int32", NumberType::Int32),
        ("uint32", NumberType::Uint32),
        ("int64", NumberType::Int64),
        ("uint64", NumberType::Uint64),
        ("float32", NumberType::Float32),
        ("float64", NumberType::Float64),
    ];
    let orders = [("big-endian", WordOrder::BigEndian), ("little-endian", WordOrder::LittleEndian)];
    // As it is on the wire: the first is 0.
    let address = section.key("address").required("52").number(0..=u16::MAX);
    let number = section.key("type").required("\"float32\"").one_of(&types);
    let table =
        section.key("table").one_of(&[("holding", Table::Holding), ("input", Table::Input)]).unwrap_or_default();
    let order = section.key("word_order").one_of(&orders).unwrap_or_default();
    // The number counts times ten to the power of this.
    let exponent = section.key("exponent").number(-10..=10).unwrap_or(0);
    let unit = required_unit(section, unit(section, "unit", is_power), is_power);
    let sign = sign(section, "sign");
    Some(Register { table, address: address?, number: number?, order, exponent, unit: unit?, sign })
}
