# Unmounts a file system once the process that held it is gone.
#
# MOUNT is where it is.

trap '' HUP INT TERM
# Only the holder has the other end of this pipe.
read -r _

# Lazily: processes that end along with the holder may be at work there for a moment longer.
umount --lazy "$MOUNT"
