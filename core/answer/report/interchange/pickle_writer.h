// Writes plain data as a Python pickle: protocol 2 without classes, so that loading runs no code. It uses only opcodes
// that the reader of memory_viz knows.
//
//   Pickle p;  p.begin_dict();  p.text("size");  p.integer(5);  p.end_dict();  std::move(p).finish()
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace memtune::report {

class PickleWriter {
 public:
  PickleWriter();

  void begin_dict();  // then alternating keys and values
  void end_dict();
  void begin_list();
  void end_list();
  void begin_tuple();
  void end_tuple();

  void integer(int64_t value);
  void boolean(bool value);
  void text(std::string_view value);  // UTF-8; repeated strings become references

  std::string finish() &&;  // after all containers have ended

 private:
  void little_endian(uint64_t value, int bytes);

  std::string bytes_;
  std::unordered_map<std::string, uint32_t> seen_;
};

}  // namespace memtune::report
