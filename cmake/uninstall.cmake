# uninstall.cmake - removes what an installation listed, and nothing else.
#
# cmake -DMANIFEST=build/install_manifest.txt -P cmake/uninstall.cmake
# DESTDIR in the environment counts as it did when installing. Folders go only if they are called
# vramwise, or are inside one, and are empty: the others were there before us, or may be somebody
# else's by now.
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
  get_filename_component(stem "${path}" NAME_WLE)
  if(path MATCHES "\\.py$") # what Python made of it
    file(GLOB compiled "${folder}/__pycache__/${stem}.*.pyc")
    if(compiled)
      file(REMOVE ${compiled})
    endif()
    list(APPEND folders "${folder}/__pycache__")
  endif()
  while(folder MATCHES "/vramwise(/|$)")
    list(APPEND folders "${folder}")
    get_filename_component(folder "${folder}" DIRECTORY)
  endwhile()
endforeach()

# The innermost first: a folder comes after those in it when its name is shorter.
list(REMOVE_DUPLICATES folders)
list(SORT folders ORDER DESCENDING)
foreach(folder ${folders})
  file(GLOB rest LIST_DIRECTORIES true "${folder}/*" "${folder}/.*")
  if(folder MATCHES "/vramwise(/|$)" AND IS_DIRECTORY "${folder}" AND NOT rest)
    file(REMOVE_RECURSE "${folder}")
  endif()
endforeach()
if(removed_count EQUAL 0)
  message(FATAL_ERROR "nothing of ${MANIFEST} is there: was it installed with another DESTDIR?")
endif()
file(REMOVE "${MANIFEST}")
message(STATUS "${removed_count} files removed")
