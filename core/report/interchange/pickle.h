// Python's pickle format as far as plain data needs it: protocol 2, without classes, so that loading runs no code. The
// reader of memory_viz knows few opcodes; these are among them.
//
//   Pickle p;  p.begin_dict();  p.text("size");  p.integer(5);  p.end_dict();  std::move(p).finish()
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace memtune::report {

class Pickle {
 public:
  Pickle();

  void begin_dict();  // then keys and values in turn
  void end_dict();
  void begin_list();
  void end_list();
  void begin_tuple();
  void end_tuple();

  void integer(int64_t value);
  void boolean(bool value);
  void text(std::string_view value);  // UTF-8; what comes again is a reference

  std::string finish() &&;  // when all that was begun has ended

 private:
  void little_endian(uint64_t value, int bytes);

  std::string bytes_;
  std::unordered_map<std::string, uint32_t> seen_;
};

}  // namespace memtune::report
