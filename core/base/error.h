// What can go wrong, in the kinds that a caller acts on differently. Only a main() prints or exits.
#pragma once

#include <stdexcept>
#include <string>

namespace memtune {

// Base of every error that memtune raises itself. what() is one line that names the thing, the value and the way out.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The person can fix it: a flag, a file, a profile, a model that cannot be used. Exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

// The operating system refused: the message holds path, operation and errno text.
class IoError : public Error {
 public:
  using Error::Error;
};

// The accelerator or its driver failed.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// The machine has no more host memory to give (or to page-lock): the message holds the bytes asked for.
class OutOfHostMemory : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

// A disk has no room: full, over a quota or a limit, or over the budget for it. The message holds the bytes wanted, the
// bytes free and the way out.
class DiskFull : public IoError {
 public:
  using IoError::IoError;
};

// A disk or its file system failed: the message holds what was done where, and the errno text.
class DiskError : public Error {
 public:
  using Error::Error;
};

// What came back from a disk is not what was written to it.
class CorruptBlock : public Error {
 public:
  using Error::Error;
};

}  // namespace memtune
