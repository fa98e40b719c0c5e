// Users type budgets and caps, and these decide which trials run. A misread unit would recommend a plan that does not
// fit.
#include "core/base/bytes.h"

#include <doctest/doctest.h>

#include <string>

#include "core/base/error.h"

namespace memtune::bytes_test {

using namespace memtune;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
const std::string kForms = "; valid forms: 16GiB, 1.5GiB, 80GB (decimal), 64M (binary), 123 (bytes)";

}  // namespace

TEST_CASE("byte counts are read in binary and decimal units") {
  CHECK(parse_bytes("0") == 0);
  CHECK(parse_bytes("123") == 123);
  CHECK(parse_bytes("123B") == 123);
  CHECK(parse_bytes("16GiB") == 16 * kGiB);
  CHECK(parse_bytes("1.5 GiB") == kGiB + kGiB / 2);
  CHECK(parse_bytes("80GB") == 80'000'000'000);
  CHECK(parse_bytes("64M") == 64 << 20);
  CHECK(parse_bytes("2k") == 2048);
  CHECK(parse_bytes(" 1gib ") == kGiB);
  CHECK(parse_bytes("1TiB") == 1024 * kGiB);
}

TEST_CASE("large byte counts are exact up to 1 PiB") {
  CHECK(parse_bytes("1125899906842624") == int64_t{1} << 50);
  CHECK(parse_bytes("1125899906842623") == (int64_t{1} << 50) - 1);
  CHECK(parse_bytes("1PiB") == int64_t{1} << 50);
}

TEST_CASE("an invalid byte count is rejected with the valid forms") {
  for (const char* text :
       {"12 potatoes", "", " ", "GiB", "1.5", "0x10", "1e3", "1.2.3G", "16GiBs", "nan", "inf", "+5"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(parse_bytes(text), ("'" + std::string(text) + "' is not a byte count" + kForms).c_str(),
                         UsageError);
  }
  CHECK_THROWS_WITH_AS(parse_bytes("-1GiB"), ("'-1GiB' is a negative byte count" + kForms).c_str(), UsageError);
  for (const char* text : {"5EiB", "1125899906842625", "99999999999999999999999999999999GiB"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(parse_bytes(text), ("'" + std::string(text) + "' is more than 1 PiB" + kForms).c_str(),
                         UsageError);
  }
}

TEST_CASE("byte counts have three or four digits and whole units have no decimals") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(17) == "17 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1 KiB");
  CHECK(format_bytes(512 << 10) == "512 KiB");
  CHECK(format_bytes(1536) == "1.50 KiB");
  CHECK(format_bytes(16 * kGiB) == "16 GiB");
  CHECK(format_bytes(16 * kGiB + 1) == "16.00 GiB");
  CHECK(format_bytes(38'933'878'702) == "36.26 GiB");
  CHECK(format_bytes(1000 * kGiB) == "1000 GiB");
  CHECK(format_bytes(150 * kGiB + kGiB / 4) == "150.2 GiB");
  CHECK(format_bytes(-kGiB / 2) == "-512 MiB");
}

TEST_CASE("rounding never prints 1024 of a unit or a fifth digit") {
  CHECK(format_bytes(kGiB - 1) == "1.00 GiB");
  CHECK(format_bytes(100 * kGiB - 1) == "100.0 GiB");
  CHECK(format_bytes(1000 * kGiB - 1) == "1000 GiB");
  CHECK(format_bytes(INT64_MAX) == "8.00 EiB");
  CHECK(format_bytes(INT64_MIN) == "-8 EiB");
}

}  // namespace memtune::bytes_test
