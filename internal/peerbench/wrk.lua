-- New keys, or replays of some that were used. Keys are as long as a UUID.
local n = 0
local body = '{"amount":1099,"currency":"eur","description":"a hundred bytes of payment, more or less, for a card"}'
local new = os.getenv("WORK") == "new"
local turn = os.getenv("TURN")

function request()
  n = n + 1
  local key
  if new then
    key = string.format("%s-%024d", turn, n)
  else
    key = string.format("known-%030d", n % 64)
  end
  return wrk.format("POST", nil, {["Content-Type"] = "application/json", ["Idempotency-Key"] = key, ["X-Tenant-Id"] = "acme"}, body)
end
