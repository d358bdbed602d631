# uninstall.cmake - removes what an installation listed, and nothing else.
#
# cmake -DMANIFEST=build/install_manifest.txt -P cmake/uninstall.cmake
# DESTDIR in the environment counts as it did when installing. Folders go only if they are called
# headroom and are empty: the others were there before us, or may be somebody else's by now.
if(NOT EXISTS "${MANIFEST}")
  message(FATAL_ERROR "no ${MANIFEST}: nothing was installed from this build folder")
endif()

file(STRINGS "${MANIFEST}" files)
set(folders)
set(removed_count 0)
foreach(file ${files})
  set(path "$ENV{DESTDIR}${file}")
  if(EXISTS "${path}" OR IS_SYMLINK "${path}")
    file(REMOVE "${path}")
    if(EXISTS "${path}" OR IS_SYMLINK "${path}")
      message(FATAL_ERROR "cannot remove ${path}")
    endif()
    math(EXPR removed_count "${removed_count} + 1")
  endif()
  get_filename_component(folder "${path}" DIRECTORY)
  list(APPEND folders "${folder}")
endforeach()

list(REMOVE_DUPLICATES folders)
foreach(folder ${folders})
  get_filename_component(name "${folder}" NAME)
  file(GLOB rest LIST_DIRECTORIES true "${folder}/*" "${folder}/.*")
  if(name STREQUAL "headroom" AND IS_DIRECTORY "${folder}" AND NOT rest)
    file(REMOVE_RECURSE "${folder}")
  endif()
endforeach()
file(REMOVE "${MANIFEST}")
message(STATUS "${removed_count} files removed")
