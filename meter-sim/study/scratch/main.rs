mod gen_; mod filt; mod cut; mod cover;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    match a[1].as_str() {
        "gen" => gen_::run(&a[2..]),
        "table" => cut::table(a[2].parse().unwrap()), "cover" => cover::run(&a[2..]), "cut" => cut::run(&a[2..]), "filt" => filt::run(&a[2..]),
        _ => panic!(),
    }
}
