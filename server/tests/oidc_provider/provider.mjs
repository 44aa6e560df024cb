// A real OpenID provider on loopback: one service client per algorithm, JWT access tokens, keys made at the start.
// The client `cli` signs in users by the device flow; a test decides a code: POST /test/decide/CODE/approve, or the error.
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

const cli = {
  client_id: "cli",
  token_endpoint_auth_method: "none",
  grant_types: ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"],
  redirect_uris: [],
  response_types: [],
};

// The console signs in users by a code; whoever comes is ann. Its redirect address is the second argument.
const web = {
  client_id: "console",
  token_endpoint_auth_method: "none",
  grant_types: ["authorization_code", "refresh_token"],
  redirect_uris: process.argv[3] ? [process.argv[3]] : [],
  response_types: ["code"],
  id_token_signed_response_alg: "ES256",
};

const grantTo = async (provider, clientId) => {
  const grant = new provider.Grant({ accountId: "ann", clientId });
  grant.addOIDCScope("openid offline_access");
  grant.addResourceScope(AUDIENCE, "intent:read");
  return grant.save();
};

const interact = async (provider, request, response) => {
  const { prompt } = await provider.interactionDetails(request, response);
  const result =
    prompt.name === "login"
      ? { login: { accountId: "ann" } }
      : { consent: { grantId: await grantTo(provider, web.client_id) } };
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
};

// How many of the next token requests are answered with slow_down, which the provider itself never sends.
let slowDowns = 0;

const decide = async (provider, userCode, verdict) => {
  const code = await provider.DeviceCode.findByUserCode(userCode.replaceAll("-", ""));
  if (verdict === "approve") {
    const grantId = await grantTo(provider, "cli");
    Object.assign(code, { accountId: "ann", grantId, scope: "openid offline_access", resource: AUDIENCE });
    Object.assign(code, { authTime: Math.floor(Date.now() / 1000), claims: {} });
  } else {
    code.error = verdict;
  }
  await code.save();
};

// Whoever started us holds our input open; we end when they do.
process.stdin.on("end", () => process.exit()).resume();

const server = createServer();
server.listen(Number(process.argv[2] ?? 0), "127.0.0.1", async () => {
  const { port } = server.address();
  const provider = new Provider(`http://127.0.0.1:${port}`, {
    clients: [...ALGORITHMS.map(client), cli, ...(process.argv[3] ? [web] : [])],
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    interactions: { url: (_, { uid }) => `/interaction/${uid}` },
    pkce: { required: () => true },
    rotateRefreshToken: true,
    // Without it, the console would get one only from a user who is asked for consent at every sign-in.
    issueRefreshToken: (_, { clientId }) => clientId === web.client_id || clientId === cli.client_id,
    jwks: { keys: await Promise.all(ALGORITHMS.map(key)) },
    enabledJWA: { idTokenSigningAlgValues: ALGORITHMS },
    extraTokenClaims: () => ({ org_id: "org_9", role: "member", permissions: ["intent:edit"] }),
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      deviceFlow: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => AUDIENCE,
        getResourceServerInfo: (_, __, { clientId }) => ({
          scope: "intent:read",
          audience: AUDIENCE,
          accessTokenFormat: "jwt",
          accessTokenTTL: 600,
          jwt: { sign: { alg: ALGORITHMS.includes(clientId) ? clientId : "ES256" } },
        }),
      },
    },
  });
  const serve = provider.callback();
  server.on("request", async (request, response) => {
    const [, test, what, ...words] = request.url.split("/");
    if (test === "interaction") {
      await interact(provider, request, response);
    } else if (test === "test" && what === "decide") {
      await decide(provider, ...words);
      response.end();
    } else if (test === "test") {
      slowDowns = Number(words[0]);
      response.end();
    } else if (request.url === "/token" && slowDowns > 0) {
      slowDowns -= 1;
      response.writeHead(400, { "content-type": "application/json" }).end('{"error": "slow_down"}');
    } else {
      serve(request, response);
    }
  });
  console.log(port);
});
