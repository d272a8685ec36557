# SPDX-License-Identifier: Apache-2.0
# Makes the Debian package of BUILD's program in FOLDER, unpacks it, and runs it from there.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
function(run)
  execute_process(COMMAND ${ARGV} WORKING_DIRECTORY ${FOLDER} OUTPUT_VARIABLE said
                  ERROR_VARIABLE wrong RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${ARGV}: ${failed}\n${said}${wrong}")
  endif()
  set(said "${said}" PARENT_SCOPE)
endfunction()

run(${CPACK} -G DEB --config ${BUILD}/CPackConfig.cmake -B ${FOLDER}
    -D CPACK_COMPONENTS_ALL=runtime -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip)
file(GLOB package ${FOLDER}/tessera_*.deb)
run(dpkg-deb --field ${package} Package Version Depends)
message("${said}")
run(dpkg-deb --contents ${package})
foreach(file usr/bin/tessera usr/share/man/man1/tessera-simulate.1 usr/share/man/man1/tessera.1
        usr/share/bash-completion/completions/tessera usr/share/zsh/site-functions/_tessera
        usr/share/fish/vendor_completions.d/tessera.fish libtessera_c.so. tessera_trace.so)
  if(NOT said MATCHES "${file}")
    message(FATAL_ERROR "${package} has no ${file}:\n${said}")
  endif()
endforeach()
if(said MATCHES "/include/" OR said MATCHES "[.]a\n")
  message(FATAL_ERROR "${package} has what is for developers:\n${said}")
endif()

# Installed and removed by dpkg in a root of its own, without what it depends on.
set(root ${FOLDER}/root)
file(MAKE_DIRECTORY ${root}/var/lib/dpkg/info ${root}/var/lib/dpkg/updates)
file(TOUCH ${root}/var/lib/dpkg/status ${root}/var/lib/dpkg/available)
set(dpkg dpkg --root=${root} --force-depends --force-not-root --force-script-chrootless
         --log=${FOLDER}/dpkg.log)
run(${dpkg} --install ${package})
run(${root}/usr/bin/tessera doctor)
message("${said}")
run(${root}/usr/bin/tessera simulate ${MODEL} --steps 2 -o ${FOLDER}/run.tessera)
run(${dpkg} --purge tessera)
file(GLOB_RECURSE left ${root}/usr/*)
if(left)
  message(FATAL_ERROR "the package leaves ${left} behind")
endif()
message("installed, ran, and was removed")
file(REMOVE_RECURSE ${FOLDER})
