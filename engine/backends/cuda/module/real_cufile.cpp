// SPDX-License-Identifier: Apache-2.0
// NVIDIA's cuFile, opened when it is asked for: toolkits may lack it, and few runs need it. So its
// header is not needed either; what is declared here is the interface of libcufile.so.0
// (docs.nvidia.com/gpudirect-storage/api-reference-guide).
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cerrno>

#include "engine/backends/cuda/module/tables.h"

namespace tessera {
namespace {

struct Error {
  int cufile;
  int driver;  // CUDA's, where the first is 5011
};
struct Description {
  int type;  // 1: a file descriptor of Linux
  union {
    int file;
    void* handle;
  };
  const void* file_system = nullptr;  // cuFile's own way
};
constexpr int linux_file = 1;
constexpr int already_open = 5026;

struct Library {
  Error (*driver_open)();
  Error (*get_version)(int* version);  // 1000 * major + 10 * minor
  Error (*handle_register)(void** handle, Description* description);
  void (*handle_deregister)(void* handle);
  Error (*buffer_register)(const void* base, std::size_t bytes, int flags);
  Error (*buffer_deregister)(const void* base);
  // ssize_t and off_t of Linux on 64 bits.
  std::int64_t (*read)(void* handle, void* base, std::size_t bytes, std::int64_t file_offset,
                       std::int64_t at);
  std::int64_t (*write)(void* handle, const void* base, std::size_t bytes, std::int64_t file_offset,
                        std::int64_t at);
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// Stays open until the process ends. An empty sentence: all is there.
std::string open_library(Library& found) {
  void* const library = dlopen("libcufile.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dlerror();
  const bool whole = find(library, "cuFileDriverOpen", found.driver_open) &&
                     find(library, "cuFileGetVersion", found.get_version) &&
                     find(library, "cuFileHandleRegister", found.handle_register) &&
                     find(library, "cuFileHandleDeregister", found.handle_deregister) &&
                     find(library, "cuFileBufRegister", found.buffer_register) &&
                     find(library, "cuFileBufDeregister", found.buffer_deregister) &&
                     find(library, "cuFileRead", found.read) &&
                     find(library, "cuFileWrite", found.write);
  return whole ? "" : "libcufile.so.0 is older than CUDA 12.2";
}

struct Opened {
  Library library{};
  std::string missing = open_library(library);
};

const Opened& cufile() {
  static const Opened opened;
  return opened;
}

std::int64_t result_of(std::int64_t moved) { return moved == -1 ? -errno : moved; }

// Threads that move blocks have the first device until somebody says otherwise, and cuFile looks at
// the current one: memory of another would be refused, or a context made where nobody needs it.
constexpr int wrong_context = 5015;  // CU_FILE_CUDA_CONTEXT_MISMATCH

int handle_register(int device, void** handle, int file) {
  if (cudaSetDevice(device) != cudaSuccess) return wrong_context;
  Description description{linux_file, {file}};
  return cufile().library.handle_register(handle, &description).cufile;
}
int buffer_register(int device, void* base, std::size_t bytes) {
  if (cudaSetDevice(device) != cudaSuccess) return wrong_context;
  return cufile().library.buffer_register(base, bytes, 0).cufile;
}
void handle_deregister(int device, void* handle) {
  if (cudaSetDevice(device) == cudaSuccess) cufile().library.handle_deregister(handle);
}
void buffer_deregister(int device, void* base) {
  if (cudaSetDevice(device) == cudaSuccess) cufile().library.buffer_deregister(base);
}
std::int64_t read(int device, void* handle, void* base, std::size_t bytes, std::int64_t file_offset,
                  std::int64_t at) {
  if (cudaSetDevice(device) != cudaSuccess) return -EIO;
  return result_of(cufile().library.read(handle, base, bytes, file_offset, at));
}
std::int64_t write(int device, void* handle, const void* base, std::size_t bytes,
                   std::int64_t file_offset, std::int64_t at) {
  if (cudaSetDevice(device) != cudaSuccess) return -EIO;
  return result_of(cufile().library.write(handle, base, bytes, file_offset, at));
}

Status unavailable(const std::string& why) {
  return Status(Code::not_supported, "use_gds needs NVIDIA's cuFile: " + why +
                                         "; install it with the CUDA toolkit, or leave use_gds "
                                         "out");
}

}  // namespace

Result<std::string> find_cufile() {
  const auto& [library, missing] = cufile();
  if (!missing.empty()) return unavailable(missing);
  int version = 0;
  library.get_version(&version);
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Result<CufileApi> start_cufile() {
  const auto& [library, missing] = cufile();
  if (!missing.empty()) return unavailable(missing);
  const int code = library.driver_open().cufile;
  if (code != 0 && code != already_open) {
    return unavailable("it does not start: error " + std::to_string(code) +
                       ", of which its cufile.log says more");
  }
  return CufileApi{
      handle_register, buffer_register, handle_deregister, buffer_deregister, read, write};
}

}  // namespace tessera
