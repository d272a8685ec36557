# SPDX-License-Identifier: Apache-2.0
# Sets mpi_found: whether the module through which CPU processes talk can be built here.
# Inside of another project nothing is detected: it may have an MPI of its own.
set(mpi_found OFF)
if(PROJECT_IS_TOP_LEVEL)
  set(MPI_CXX_SKIP_MPICXX TRUE)  # MPI's own C++ classes are of no use and full of warnings
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(mpi_found ON)
  endif()
endif()
