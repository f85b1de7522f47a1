use serde_json::json;

use super::*;

/// Import and export in thousandths of a watt-hour, power in milliwatts.
type Numbers = (Option<i64>, Option<i64>, Option<i64>);

fn numbers(object: &Value) -> Result<Numbers, String> {
    match read(object.as_object().expect("an object"), Wanted::ALL) {
        Ok(values) => Ok(values.map_or((None, None, None), |values| (values.import, values.export, values.power))),
        Err(Trouble::Lost(problem) | Trouble::Refused(problem)) => Err(problem),
    }
}

/// What scripts of Tasmota's documentation call the numbers of meters.
#[test]
fn names_of_scripts_say_which_register_they_are() {
    const ALL: Numbers = (Some(3_670_225_000), Some(85_568_000), Some(-800_000));
    for object in [
        json!({"Total_in": 3670.225, "Power_curr": -800, "Total_out": 85.568, "Meter_Number": "0a01"}),
        json!({"Total_in": 3670.225, "Power_cur": -800, "Power_p1": -200, "Power_p2": -200, "Power_p3": -400, "Total_out": 85.568}),
        json!({"Total_in": 3670.225, "Total_out": 85.568, "Power_curr": -800, "Volt_p1": 230.1, "Amperage_p1": 1.5, "HZ": 50, "phase_angle_p1": 7,
               "Power_L1_curr": -800, "Power_L2_curr": 0, "Power_L3_curr": 0}),
        json!({"energy": 3670.225, "en_out": 85.568, "power": -800, "meter_id": "0a"}),
        json!({"Verbrauch_T1": 3000.225, "Verbrauch_T2": 670, "Verbrauch_Summe": 3670.225, "Einspeisung_Summe": 85.568, "Watt_L1": 1, "Watt_Summe": -800}),
        json!({"P_in": 5, "L1": 1, "L2": 2, "L3": 2, "E_in": 3670.225, "E_out": 85.568, "P": -800}),
        json!({"1_8_0": 3670.225, "1_8_1": 3000, "2_8_0": 85.568, "16_7_0": -800, "36_7_0": -800, "56_7_0": 0, "96_1_0": "x"}),
        json!({"1-8-0": 3670.225, "2-8-0": 85.568, "16-7-0": -800, "31-7-0": 4}),
        json!({"ELZ_PV_1.8.0": 3670.225, "ELZ_PV_2.8.0": 85.568, "Leistung": -800, "Wert": "id"}),
        json!({"total_consumed_kwh": 3670.225, "total_delivered_kwh": 85.568, "current_consumption": -800}),
        json!({"counter_pos": 3670.225, "counter_neg": 85.568, "power": -800}),
        json!({"pos_wirk_tariflos": 3670.225, "pos_wirk_tarif_1": 1, "neg_wirk_tariflos": 85.568, "neg_wirk_tarif_2": 2, "momentanwirkleistung": -800}),
        json!({"Total_in": 3670.225, "Total_out": 85.568, "P_L1_L2_L3": -800, "P_L1": -900, "P_L2": 50, "P_L3": 50}),
        json!({"export_total_kwh": 85.568, "total_kwh": 3670.225, "curr_w": -800, "volt_p1": 1, "amp_p1": 1, "freq": 50}),
        json!({"export_total_kwh": 85.568, "total_night_kwh": 670.225, "total_day_kwh": 3000, "curr_w": -800}),
        json!({"zaehler_a+": 3670.225, "zaehler_a-": 85.568, "volt_l1": 5, "watt_l1": -700, "watt_l2": -100, "watt_l3": 0}),
        json!({"power_in": 0, "Total_in": 3670.225, "power_out": 800, "Total_out": 85.568}),
        json!({"Total": 3670.225, "Supply": 85.568, "Power": -800, "Voltage": 230, "Current": 3.5, "Freq": 50}),
        json!({"total": 3670.225, "total_1d": 5, "total_7d": 35, "total_365d": 999, "total_reset": 1, "power": -800, "total_out": 85.568}),
        json!({"energy_sum": 3670.225, "energy_tarif1": 1, "energy_tarif2": 2, "energy_supply": 85.568, "power": -800}),
        json!({"Total_in": 3670.225, "HT_Total_in": 1, "NT_Total_in": 2, "Total_out": 85.568, "kW_L1": -0.8, "kW_L1+L2+L3": -0.8}),
        json!({"kWh_IN": 3670.225, "kWh_OUT": 85.568, "kW_IN": 0, "kW_OUT": 0.8, "kvarh_IN": 7, "kvar_OUT": 3}),
        json!({"ImportActive": 3670.225, "ExportActive": 85.568, "Power": -800, "power_L1": -800, "power_L2": 0, "power_L3": 0}),
        json!({"Energy_Tot": 3670.225, "Energy_Demand": 9, "Energy_Tot_Export": 85.568, "Power_L1": -800, "Power_L2": 1, "Power_L3": -1,
               "Power_va_L1": 900, "Power_var_L1": 100, "PF_L1": 0.9}),
        json!({"enrg_imp": 3670.225, "enrg_exp": 85.568, "enrg_imp_t1": 1, "enrg_imp_t2": 2, "nrg_reac_imp": 3, "mo_enrg_imp": 4, "Power": -800}),
        json!({"Bezug": 3670.225, "Einspeisung": 85.568, "Leistung_aktuell": -800}),
    ] {
        assert_eq!(numbers(&object), Ok(ALL), "{object}");
    }
}

#[test]
fn tariffs_are_added_and_what_has_no_direction_is_import() {
    assert_eq!(numbers(&json!({"Counter": 1.5, "Power": 3})), Ok((Some(1_500_000), None, Some(3_000))));
    assert_eq!(numbers(&json!({"E_T1": 1, "E_T2": 2})), Ok((Some(3_000_000), None, None)));
    let tasmota = json!({"Total": 1, "TotalTariff": [1, 0], "ExportActive": 2, "ExportTariff": [1, 1], "Power": -1500, "Today": 3,
                         "Yesterday": 4, "Period": 5, "ApparentPower": 6, "ReactivePower": 7, "Factor": 0.8, "TotalStartTime": "x"});
    assert_eq!(numbers(&tasmota), Ok((Some(1_000_000), Some(2_000_000), Some(-1_500_000))));
    // What is taken says nothing of what is fed in.
    assert_eq!(numbers(&json!({"Total_in": 1, "Power_in": 5})), Ok((Some(1_000_000), None, None)));
    assert_eq!(
        numbers(&json!({"Temperature": 20, "Humidity": 60, "power_on_behavior": "previous"})),
        Ok((None, None, None))
    );
}

#[test]
fn phases_are_added_and_a_part_is_refused() {
    let power = |object: Value| numbers(&object).map(|(_, _, power)| power);
    assert_eq!(power(json!({"power": 89, "power_phase_b": 384, "power_phase_c": 0})), Ok(Some(473_000)));
    assert_eq!(
        power(json!({"power": 89, "power_phase_b": 384, "power_phase_c": 7, "total_power": 480})),
        Ok(Some(480_000))
    );
    assert_eq!(power(json!({"power": 473, "power_a": 89, "power_b": 384, "power_c": 0})), Ok(Some(473_000)));
    assert_eq!(power(json!({"power_a": 89, "power_b": 384, "power_c": 1})), Ok(Some(474_000)));
    assert_eq!(power(json!({"power_ab": 473, "power_a": 89, "power_b": 384})), Ok(Some(473_000)));
    for part in [
        json!({"power": 89, "power_phase_b": 384}),
        json!({"power": 89, "power_a": 89, "power_b": 384, "power_c": 0}),
        json!({"power_a": 89, "power_b": 384}),
        json!({"power_l2": 5}),
        json!({"power": [89, 384, 0]}),
        json!({"Total": [1.5, 2.5], "Power": 4}),
    ] {
        let problem = numbers(&part).expect_err("a part");
        assert!(problem.contains("say with `power`, `import` and `export`"), "{problem}");
    }
}

#[test]
fn what_is_not_clear_is_refused() {
    for (object, problem) in [
        (json!({"Power_total_in": 3670.2, "Power_curr": 5}), "`Power_total_in` may be a power or a counter"),
        (json!({"Power_T1": 3670, "Power_T2": 1}), "`Power_T1` may be a power or a counter"),
        (json!({"Total_T1": 3670, "Power": 1}), "`Total_T1` is one tariff"),
        (json!({"DDM_Power": 5, "DDM_Tot_Power": 3670.2}), "say the same, and differ"),
        (json!({"C1ActivePower": 5, "C3ActivePower": 7}), "say the same, and differ"),
        (json!({"energy_delivered": 5}), "may be import or export"),
        (json!({"power": null}), "`power` is not a number"),
        (json!({"power": "unavailable"}), "`power` is not a number"),
    ] {
        let found = numbers(&object).expect_err("not clear");
        assert!(found.contains(problem), "{found}");
    }
}

#[test]
fn a_direction_that_is_said_apart_turns_the_sign() {
    let power = |object: Value| numbers(&object).map(|(_, _, power)| power);
    assert_eq!(power(json!({"power": 500, "energy_flow": "producing"})), Ok(Some(-500_000)));
    assert_eq!(power(json!({"power": -500, "energy_flow": "producing"})), Ok(Some(-500_000)));
    assert_eq!(power(json!({"power": 500, "energy_flow": "consuming"})), Ok(Some(500_000)));
}

#[test]
fn what_the_owner_places_is_not_looked_at() {
    let object = json!({"Power_total_in": 3670.2, "power": [1, 2], "Total_in": 1});
    let wanted = Wanted { power: false, import: true, export: true };
    // A name that may be either stays in the way of the counters.
    assert!(read(object.as_object().expect("an object"), wanted).is_err());
    let object = json!({"power": [1, 2], "Total_in": 1});
    let values =
        read(object.as_object().expect("an object"), wanted).map(|values| values.and_then(|values| values.import));
    assert_eq!(values, Ok(Some(1_000_000)));
}
