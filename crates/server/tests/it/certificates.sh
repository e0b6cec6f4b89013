# An authority, and certificates of it: of the server by its host's name, and of the role anna.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=our authority" -keyout ca.key -out ca.crt
certify() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -keyout "$1.key" -out "$1.csr"
    openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -extfile <(echo "$2") -out "$1.crt"
}
certify server $'subjectAltName = DNS:localhost\nextendedKeyUsage = serverAuth'
certify anna 'extendedKeyUsage = clientAuth'
