# SPDX-License-Identifier: Apache-2.0
# One way to make a library, so that every target gets the same language, warnings and options.

add_library(tessera_options INTERFACE)
target_compile_features(tessera_options INTERFACE cxx_std_20)
target_compile_options(tessera_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -Wno-missing-field-initializers  # options structs are filled with designated initializers
  -ffp-contract=off  # the same rounding from every compiler: traces are compared byte by byte
  $<$<BOOL:${TESSERA_WERROR}>:-Werror>)
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # Files that are compiled as one see each other's names, and none of them is the main one.
  target_compile_options(tessera_options INTERFACE -Wno-shadow -Wshadow=local
                         -Wno-subobject-linkage)
  # Such a unit makes garbage of which little is ever free to go: collecting it from 128 MB on, as
  # GCC does, is a tenth of the time to compile. A compiler then takes 0.3 GB more, 1.5 GB at most.
  target_compile_options(tessera_options INTERFACE --param=ggc-min-heapsize=1500000)
endif()
if(TESSERA_SANITIZE)
  target_compile_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE}
                         -fno-sanitize-recover=all -fno-omit-frame-pointer
                         $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)  # false: GCC bug 105562
  if(TESSERA_SANITIZE MATCHES undefined)
    # Checks before every access and of every sum of a pointer; what they find, ASan finds at the
    # access, and they are two fifths of the time to compile.
    target_compile_options(tessera_options INTERFACE
                           -fno-sanitize=null,vptr,object-size,pointer-overflow)
  endif()
  target_link_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE})
endif()

# tessera_library(NAME SOURCES files... [PUBLIC libs...] [PRIVATE libs...])
# Makes tessera_NAME with the alias tessera::NAME; public headers lie in include/.
function(tessera_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(tessera_${name} STATIC ${ARG_SOURCES})
  add_library(tessera::${name} ALIAS tessera_${name})
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS include/*.h)
  target_sources(tessera_${name} PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${headers})
  target_include_directories(tessera_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(tessera_${name} PUBLIC ${ARG_PUBLIC}
                        PRIVATE $<BUILD_INTERFACE:tessera_options> ${ARG_PRIVATE})
  target_compile_features(tessera_${name} PUBLIC cxx_std_20)
  set_target_properties(tessera_${name} PROPERTIES EXPORT_NAME ${name}
                        VERIFY_INTERFACE_HEADER_SETS ON POSITION_INDEPENDENT_CODE ON)
endfunction()

# Loops over numbers become vector code in every kind of build. The options change no result: none
# of these loops looks at floating-point exceptions or errno.
set(TESSERA_VECTOR_OPTIONS -O3 -fno-trapping-math -fno-math-errno)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND TESSERA_VECTOR_OPTIONS -mprefer-vector-width=512)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(APPEND TESSERA_VECTOR_OPTIONS -fno-thread-jumps)  # else the bounds of exp become branches
endif()
