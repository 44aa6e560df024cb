// A real OpenID provider on loopback: one service client per algorithm, JWT access tokens, keys made at the start.
import { createServer } from "node:http";
import { exportJWK, generateKeyPair } from "jose";
import Provider from "oidc-provider";

const AUDIENCE = "https://openbell.test";
const ALGORITHMS = ["RS256", "ES256", "EdDSA"];

const key = async (alg) => {
  const { privateKey } = await generateKeyPair(alg, { extractable: true });
  return { ...(await exportJWK(privateKey)), alg, use: "sig" };
};
const client = (alg) => ({
  client_id: alg,
  client_secret: `secret-of-${alg}`,
  grant_types: ["client_credentials"],
  redirect_uris: [],
  response_types: [],
});

// Whoever started us holds our input open; we end when they do.
process.stdin.on("end", () => process.exit()).resume();

const server = createServer();
server.listen(Number(process.argv[2] ?? 0), "127.0.0.1", async () => {
  const { port } = server.address();
  const provider = new Provider(`http://127.0.0.1:${port}`, {
    clients: ALGORITHMS.map(client),
    jwks: { keys: await Promise.all(ALGORITHMS.map(key)) },
    enabledJWA: { idTokenSigningAlgValues: ALGORITHMS },
    extraTokenClaims: () => ({ org_id: "org_9", role: "member", permissions: ["intent:edit"] }),
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => AUDIENCE,
        getResourceServerInfo: (_, __, { clientId }) => ({
          scope: "intent:read",
          audience: AUDIENCE,
          accessTokenFormat: "jwt",
          accessTokenTTL: 600,
          jwt: { sign: { alg: clientId } },
        }),
      },
    },
  });
  server.on("request", provider.callback());
  console.log(port);
});
