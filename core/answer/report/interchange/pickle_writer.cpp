#include "core/answer/report/interchange/pickle_writer.h"

namespace memtune::report {
namespace {

// Opcodes, named as in Python's pickletools.
constexpr char kProto = '\x80', kStop = '.', kMark = '(', kEmptyDict = '}', kSetItems = 'u', kEmptyList = ']',
               kAppends = 'e', kTuple = 't', kBinInt = 'J', kLong1 = '\x8a', kNewTrue = '\x88', kNewFalse = '\x89',
               kBinUnicode = 'X', kLongBinPut = 'r', kLongBinGet = 'j';

}  // namespace

PickleWriter::PickleWriter() : bytes_{kProto, 2} {}

void PickleWriter::begin_dict() { bytes_ += {kEmptyDict, kMark}; }
void PickleWriter::end_dict() { bytes_ += kSetItems; }
void PickleWriter::begin_list() { bytes_ += {kEmptyList, kMark}; }
void PickleWriter::end_list() { bytes_ += kAppends; }
void PickleWriter::begin_tuple() { bytes_ += kMark; }
void PickleWriter::end_tuple() { bytes_ += kTuple; }

void PickleWriter::little_endian(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i));
}

void PickleWriter::integer(int64_t value) {
  if (value == static_cast<int32_t>(value)) {
    bytes_ += kBinInt;
    little_endian(static_cast<uint64_t>(value), 4);
  } else {
    bytes_ += {kLong1, 8};
    little_endian(static_cast<uint64_t>(value), 8);
  }
}

void PickleWriter::boolean(bool value) { bytes_ += value ? kNewTrue : kNewFalse; }

void PickleWriter::text(std::string_view value) {
  const auto [entry, is_new] = seen_.try_emplace(std::string(value), static_cast<uint32_t>(seen_.size()));
  if (is_new) {
    bytes_ += kBinUnicode;
    little_endian(value.size(), 4);
    bytes_ += value;
  }
  bytes_ += is_new ? kLongBinPut : kLongBinGet;
  little_endian(entry->second, 4);
}

std::string PickleWriter::finish() && { return std::move(bytes_) + kStop; }

}  // namespace memtune::report
