// A machine profile is read back from its file unchanged. An error names the field.
#include "core/plan/facts/machine_profile.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "tests/support/run_program.h"

namespace memtune::machine_profile_test {

using namespace memtune;
using namespace memtune::plan;
using nlohmann::json;

namespace {

MachineProfile one() {
  MachineProfile machine;
  machine.name = "mine";
  machine.description = "the one below the desk";
  machine.devices = {"NVIDIA X", "NVIDIA X 2"};
  machine.basis = MachineProfile::Basis::measured;
  machine.emulated = true;
  machine.memory_bytes = 123;
  machine.tflops = {{"float32", 1.5}, {"tf32", 3}, {"bfloat16", 9}};
  machine.memory_gb_per_s = 7;
  machine.link_out_gb_per_s = 5;
  machine.link_in_gb_per_s = 4;
  machine.disk_write_gb_per_s = 2;
  machine.disk_read_gb_per_s = 3;
  machine.host_memory_bytes = 456;
  machine.sources = {{"tflops", "measured"}};
  return machine;
}

// Returns the error for a profile with one field changed, or "taken". A null value removes the field.
std::string refusal(const std::string& place, const json& value) {
  json written = one();
  written[json::json_pointer(place)] = value;
  if (value.is_null()) written.erase(place.substr(1));
  try {
    parse_machine_profile("mine", written.dump());
  } catch (const UsageError& error) {
    return error.what();
  }
  return "taken";
}

}  // namespace

TEST_CASE("a machine profile is read back from its file unchanged") {
  CHECK(parse_machine_profile("file", json(one()).dump()) == one());
  CHECK(json(one()).get<MachineProfile>() == one());
  MachineProfile little = one();
  little.emulated = false;
  little.link_out_gb_per_s = little.link_in_gb_per_s = little.disk_write_gb_per_s = little.disk_read_gb_per_s = 0;
  little.host_memory_bytes = 0;
  CHECK(json(little).get<MachineProfile>() == little);
  CHECK_FALSE(json(little).contains("link_out_gb_per_s"));
}

TEST_CASE("an invalid machine profile is refused with the field's name") {
  CHECK(refusal("/memory_bytes", 5) == "taken");
  CHECK(refusal("/memory_bytes", -5).starts_with("mine.memory_bytes must be an integer from 1 to "));
  CHECK(refusal("/memory_bytes", 1e300).starts_with("mine.memory_bytes must be"));
  CHECK(refusal("/memory_bytes", (int64_t{1} << 50) + 1).starts_with("mine.memory_bytes must be"));
  CHECK(refusal("/memory_gb_per_s", 0) == "mine.memory_gb_per_s must be a rate from 1e-6 to 1e9, not 0.0");
  CHECK(refusal("/memory_gb_per_s", 1e-300).starts_with("mine.memory_gb_per_s must be a rate"));
  CHECK(refusal("/memory_gb_per_s", "fast") == "mine.memory_gb_per_s must be a number, not \"fast\"");
  CHECK(refusal("/link_in_gb_per_s", -1).starts_with("mine.link_in_gb_per_s must be a rate"));
  CHECK(refusal("/disk_read_gb_per_s", 1e10).starts_with("mine.disk_read_gb_per_s must be a rate"));
  CHECK(refusal("/tflops/float32", -2).starts_with("mine.tflops.float32 must be a rate"));
  CHECK(refusal("/tflops/fp8", 2).starts_with("unknown field of mine.tflops 'fp8'"));
  CHECK(refusal("/tflops", json::object()) == "mine.tflops must have a rate");
  CHECK(refusal("/tflops", 3).starts_with("mine.tflops must be an object"));
  CHECK(refusal("/basis", "guess") == "mine.basis: unknown basis 'guess'. Known: datasheet, measured");
  CHECK(refusal("/name", " ") == "mine.name must be a line of text");
  CHECK(refusal("/name", "a\nb") == "mine.name must be a line of text");
  CHECK(refusal("/name", "a\u009b31m") == "mine.name must be a line of text");
  CHECK(refusal("/devices", "NVIDIA X").starts_with("mine.devices must be an array"));
  CHECK(refusal("/devices/0", "\x1b[31m") == "mine.devices must be a line of text");
  CHECK(refusal("/sources/tflops", 3).starts_with("mine.sources.tflops must be a text"));
  CHECK(refusal("/sources/a\u001bb", "x") == "mine.sources must be a line of text");
  CHECK(refusal("/version", 2).starts_with("mine.version must be an integer from 1 to 1"));
  CHECK(refusal("/tflop", 2).starts_with("unknown field of mine 'tflop'; did you mean 'tflops'?"));
  for (const char* field : {"version", "name", "basis", "memory_bytes", "tflops", "memory_gb_per_s"})
    CHECK(refusal("/" + std::string(field), nullptr) == "mine." + std::string(field) + " is missing");
}

TEST_CASE("text that is not one JSON document is refused as a machine profile") {
  std::string text = json(one()).dump();
  text.replace(text.find("7.0"), 3, "NaN");
  CHECK_THROWS_WITH_AS(parse_machine_profile("mine", text), doctest::Contains("mine is not JSON: line"), UsageError);
  text.replace(text.find("NaN"), 3, "1e999");
  CHECK_THROWS_AS(parse_machine_profile("mine", text), UsageError);
  CHECK_THROWS_AS(parse_machine_profile("mine", "[]"), UsageError);
}

TEST_CASE("every built-in machine names its sources and no device belongs to two machines") {
  std::set<std::string> devices;
  REQUIRE(machine_names().size() > 10);
  for (const std::string& name : machine_names()) {
    CAPTURE(name);
    const MachineProfile machine = find_machine(name);
    CHECK(machine.name == name);
    CHECK(machine.basis == MachineProfile::Basis::datasheet);
    for (const char* field : {"memory_bytes", "tflops", "memory_gb_per_s"}) CHECK(machine.sources.contains(field));
    CHECK((machine.link_out_gb_per_s > 0) == machine.sources.contains("link"));
    CHECK_FALSE(machine.devices.empty());
    for (const std::string& device : machine.devices) {
      CHECK(devices.insert(device).second);
      CHECK(machine_of_device(device) == machine);
    }
    CHECK(machine.tflops.contains("float32"));
  }
  CHECK(find_machine("h100").tflops == find_machine("h200").tflops);
  CHECK_FALSE(machine_of_device("CPU (4 cores)"));
}

TEST_CASE("a machine is found by name or file and an unknown name lists the known ones") {
  const test::ScratchFolder folder;
  const std::string path = (folder.path / "here.json").string();
  std::ofstream(path) << json(one());
  CHECK(find_machine(path) == one());
  CHECK(find_machine("h200").memory_gb_per_s == 4800);
  CHECK_THROWS_WITH_AS(find_machine("h20"), doctest::Contains("unknown machine 'h20'; did you mean 'h200'? Known: a10"),
                       UsageError);
  CHECK_THROWS_AS(find_machine(std::string(5000, 'a')), UsageError);
  CHECK_THROWS_WITH_AS(find_machine("no/such.json"), "no such machine file: no/such.json", UsageError);
  std::ofstream(path) << "{";
  CHECK_THROWS_WITH_AS(find_machine(path), doctest::Contains("here.json is not JSON"), UsageError);
}

}  // namespace memtune::machine_profile_test
