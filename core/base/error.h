// Exception types, one for each kind of failure that callers handle differently. Only a main() prints them or exits.
#pragma once

#include <stdexcept>
#include <string>

namespace memtune {

// Base of every exception that memtune itself throws. what() is one line: the object, the value and how to fix it.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The user can fix it, for example a flag, a file, a profile or an unusable model. Exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

// The operating system reported an error. The message holds path, operation and errno text.
class IoError : public Error {
 public:
  using Error::Error;
};

// The accelerator or its driver failed.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// Allocating or page-locking host memory failed. The message holds the requested bytes.
class OutOfHostMemoryError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

// A write found no space: the disk is full, or a quota, a file size limit or memtune's own disk budget is reached. The
// message names the place and, if known, the bytes needed and free.
class DiskFullError : public IoError {
 public:
  using IoError::IoError;
};

// A disk or its file system failed. The message holds operation, path and errno text.
class DiskOrFileSystemError : public Error {
 public:
  using Error::Error;
};

// Data read from a disk differs from the data written there.
class DiskDataCorruptionError : public Error {
 public:
  using Error::Error;
};

}  // namespace memtune
